#include "engine/available_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace baton {
namespace {

namespace fs = std::filesystem;

class AvailableMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) / ("memory_" + std::to_string(getpid()));
    fs::remove_all(root_);
    source_ = {.proc = root_ / "proc", .sys = root_ / "sys"};
  }
  void TearDown() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  // A group of version 2 below the mount.
  void WriteGroup(const std::string& group, const std::string& max, const std::string& current) {
    Write("sys/fs/cgroup/" + group + "/memory.max", max + "\n");
    Write("sys/fs/cgroup/" + group + "/memory.current", current + "\n");
  }
  void WriteSystem(uint64_t kilobytes) {
    Write("proc/meminfo", "MemTotal:       99999999 kB\nMemFree:  5 kB\nMemAvailable:   " +
                              std::to_string(kilobytes) + " kB\nBuffers: 7 kB\n");
  }

  fs::path root_;
  MemorySource source_;
};

TEST_F(AvailableMemoryTest, NothingReadable) {
  EXPECT_EQ(AvailableMemory(source_), std::nullopt);
}

TEST_F(AvailableMemoryTest, TheSystemAlone) {
  WriteSystem(1000);
  EXPECT_EQ(AvailableMemory(source_), 1024000u);
}

TEST_F(AvailableMemoryTest, TheProcessesOwnGroupCounts) {
  WriteSystem(1000000);
  Write("proc/self/cgroup", "0::/user/job\n");
  WriteGroup("other", "10", "5");  // not ours
  EXPECT_EQ(AvailableMemory(source_), 1024000000u);
  WriteGroup("user/job", "5000000", "2000000");
  EXPECT_EQ(AvailableMemory(source_), 3000000u);
}

TEST_F(AvailableMemoryTest, DroppableFilePagesAreFree) {
  Write("proc/self/cgroup", "0::/job\n");
  WriteGroup("job", "5000000", "4900000");
  Write("sys/fs/cgroup/job/memory.stat",
        "anon 1000\nfile 4800000\ninactive_anon 3\ninactive_file 4000000\nactive_file 5\n");
  EXPECT_EQ(AvailableMemory(source_), 4100000u);
  // Counters are read one after the other and may disagree.
  Write("sys/fs/cgroup/job/memory.stat", "inactive_file 9000000\n");
  EXPECT_EQ(AvailableMemory(source_), 5000000u);
}

TEST_F(AvailableMemoryTest, TheTightestOfTheGroupsAbove) {
  Write("proc/self/cgroup", "0::/a/b/c\n");
  WriteGroup("a/b/c", "max", "100");
  WriteGroup("a/b", "8000", "100");
  WriteGroup("a", "5000", "4999");
  EXPECT_EQ(AvailableMemory(source_), 1u);
  WriteGroup("a", "5000", "6000");  // over its limit
  EXPECT_EQ(AvailableMemory(source_), 0u);
}

TEST_F(AvailableMemoryTest, AContainerSeesItsGroupAtTheMountsRoot) {
  Write("proc/self/cgroup", "0::/docker/0123\n");
  WriteGroup(".", "7000", "1000");
  EXPECT_EQ(AvailableMemory(source_), 6000u);
}

TEST_F(AvailableMemoryTest, VersionOne) {
  WriteSystem(1000000);
  Write("proc/self/cgroup", "12:cpu,cpuacct:/job\n7:memory:/job\n1:name=systemd:/x\n0::/\n");
  Write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "900000\n");
  Write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "800000\n");
  Write("sys/fs/cgroup/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 300000\n");
  EXPECT_EQ(AvailableMemory(source_), 400000u);
  // No limit is a huge number there.
  Write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(AvailableMemory(source_), 1024000000u);
}

TEST_F(AvailableMemoryTest, NonsenseIsNoLimit) {
  WriteSystem(10);
  Write("proc/self/cgroup", "\n:\n0:\nx:memory\n0::\n" + std::string(100000, ':') + "\n");
  Write("sys/fs/cgroup/memory.max", "-5\n");
  Write("sys/fs/cgroup/memory.current", "");
  EXPECT_EQ(AvailableMemory(source_), 10240u);
}

TEST(AvailableMemory, OfThisMachine) {
  const std::optional<uint64_t> available = AvailableMemory({});
  ASSERT_TRUE(available.has_value());
  EXPECT_GT(*available, 1u << 20);
}

}  // namespace
}  // namespace baton
