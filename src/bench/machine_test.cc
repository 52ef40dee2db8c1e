#include "bench/machine.h"

#include <gtest/gtest.h>

#include <string>

#include "base/test_system_files.h"
#include "threads/cpu_topology.h"

namespace baton {
namespace {

class MachineTest : public SystemFilesTest {
 protected:
  struct Entry {
    int index;
    std::string level;
    std::string type;
    std::string size;
    std::string cpus;
  };
  void WriteCache(const Entry& entry) {
    const std::string folder = "sys/devices/system/cpu/cpu" +
                               std::to_string(ReadCpuTopology().cpus.front()) + "/cache/index" +
                               std::to_string(entry.index) + "/";
    Write(folder + "level", entry.level + "\n");
    Write(folder + "type", entry.type + "\n");
    Write(folder + "size", entry.size + "\n");
    Write(folder + "shared_cpu_list", entry.cpus + "\n");
  }
};

TEST_F(MachineTest, ReadsWhatTheSystemSays) {
  Write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Abacus 3000\n\nprocessor\t: 1\n");
  Write("proc/meminfo", "MemFree:  5 kB\nMemTotal:       16384 kB\n");
  WriteCache({0, "1", "Data", "48K", "0"});
  WriteCache({1, "1", "Instruction", "64K", "0"});
  WriteCache({2, "2", "Unified", "2048K", "0-1"});
  WriteCache({3, "3", "Unified", "32M", "0-3,8,10-11"});
  const Machine machine = ReadMachine(system_);
  EXPECT_EQ(machine.cpu_name, "Abacus 3000");
  EXPECT_EQ(machine.memory_bytes, 16u << 20);
  ASSERT_EQ(machine.caches.size(), 3u);
  EXPECT_EQ(machine.CacheBytes(1), 48u << 10);
  EXPECT_EQ(machine.CacheBytes(2), 2u << 20);
  EXPECT_EQ(machine.CacheBytes(3), 32u << 20);
  EXPECT_EQ(machine.caches[1].num_sharing, 2);
  EXPECT_EQ(machine.caches[2].num_sharing, 7);
  EXPECT_GE(machine.num_cpus, 1);
}

TEST_F(MachineTest, WhatIsMissingOrSenselessStaysUnknown) {
  WriteCache({0, "1", "Data", "big", "0"});
  WriteCache({1, "77", "Unified", "4K", "0"});
  WriteCache({2, "2", "Unified", "0K", "x"});
  const Machine machine = ReadMachine(system_);
  EXPECT_EQ(machine.cpu_name, "unknown");
  EXPECT_EQ(machine.memory_bytes, 0u);
  EXPECT_TRUE(machine.caches.empty());
  EXPECT_FALSE(machine.IsCacheKnown(3));
  EXPECT_EQ(machine.CacheBytes(3), 32u << 20);
  EXPECT_EQ(PeakResidentBytes(system_), 0u);
}

TEST_F(MachineTest, PeakOfThisProcess) {
  Write("proc/self/status", "Name: x\nVmHWM:\t   2048 kB\n");
  EXPECT_EQ(PeakResidentBytes(system_), 2u << 20);
  EXPECT_GT(PeakResidentBytes({}), 1u << 20);
}

}  // namespace
}  // namespace baton
