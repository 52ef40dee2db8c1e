#include "engine/available_memory.h"

#include <gtest/gtest.h>

#include <string>

#include "base/test_system_files.h"

namespace baton {
namespace {

class AvailableMemoryTest : public SystemFilesTest {
 protected:
  void WriteSystem(const std::string& available) {
    Write("proc/meminfo", "MemTotal:       99999999 kB\nMemFree:  5 kB\nMemAvailable:   " +
                              available + " kB\nBuffers: 7 kB\n");
  }
  void WriteGroup(const std::string& max, const std::string& current) {
    Write("proc/self/cgroup", "0::/job\n");
    Write("sys/fs/cgroup/job/memory.max", max + "\n");
    Write("sys/fs/cgroup/job/memory.current", current + "\n");
  }
};

TEST_F(AvailableMemoryTest, NothingReadable) {
  EXPECT_EQ(AvailableMemory(system_), std::nullopt);
}

TEST_F(AvailableMemoryTest, TheSystemAlone) {
  WriteSystem("1000");
  EXPECT_EQ(AvailableMemory(system_), 1024000u);
  WriteSystem("18446744073709551615");  // more bytes than a number can say
  EXPECT_EQ(AvailableMemory(system_), std::nullopt);
}

TEST_F(AvailableMemoryTest, TheGroupAlone) {
  WriteGroup("5000000", "2000000");
  EXPECT_EQ(AvailableMemory(system_), 3000000u);
}

TEST_F(AvailableMemoryTest, TheLessOfSystemAndGroup) {
  WriteSystem("1000");
  WriteGroup("5000000", "2000000");
  EXPECT_EQ(AvailableMemory(system_), 1024000u);
  WriteGroup("5000000", "4900000");
  EXPECT_EQ(AvailableMemory(system_), 100000u);
  WriteGroup("max", "4900000");
  EXPECT_EQ(AvailableMemory(system_), 1024000u);
}

TEST(AvailableMemory, OfThisMachine) {
  const std::optional<uint64_t> available = AvailableMemory({});
  ASSERT_TRUE(available.has_value());
  EXPECT_GT(*available, 1u << 20);
}

}  // namespace
}  // namespace baton
