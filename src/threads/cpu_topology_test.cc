#include "threads/cpu_topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/test_system_files.h"

namespace baton {
namespace {

using ::testing::ElementsAre;

class CpuTopologyTest : public SystemFilesTest {
 protected:
  void WriteSiblings(int cpu, const std::string& list) {
    Write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
          list + "\n");
  }
  CpuTopology Read() const {
    return ReadCpuTopologyFrom({.system = system_, .affinity = affinity_});
  }

  std::vector<int> affinity_ = {0, 1, 2, 3};
};

TEST_F(CpuTopologyTest, NothingReadableMeansNoLimit) {
  const CpuTopology topology = Read();
  EXPECT_THAT(topology.cores, ElementsAre(0, 1, 2, 3));
  EXPECT_FALSE(topology.quota.has_value());
  EXPECT_EQ(topology.num_usable(), 4);
}

TEST_F(CpuTopologyTest, HyperthreadsCountOnce) {
  WriteSiblings(0, "0,2");
  WriteSiblings(1, "1,3");
  WriteSiblings(2, "0,2");
  WriteSiblings(3, "1,3");
  EXPECT_THAT(Read().cores, ElementsAre(0, 1));
  EXPECT_EQ(Read().num_usable(), 4);
  EXPECT_EQ(Read().num_compute_threads(), 2);
}

TEST_F(CpuTopologyTest, CoreWhoseFirstThreadIsForbiddenStillCounts) {
  affinity_ = {1, 2, 3};
  WriteSiblings(1, "0-1");
  WriteSiblings(2, "2-3");
  WriteSiblings(3, "2-3");
  EXPECT_THAT(Read().cores, ElementsAre(1, 2));
}

TEST_F(CpuTopologyTest, TheQuotaBoundsTheThreadsRoundedDown) {
  Write("proc/self/cgroup", "0::/pod/box\n");
  Write("sys/fs/cgroup/pod/cpu.max", "250000 100000\n");
  EXPECT_DOUBLE_EQ(Read().quota.value(), 2.5);
  EXPECT_EQ(Read().num_usable(), 2);
  EXPECT_EQ(Read().num_compute_threads(), 2);
  Write("sys/fs/cgroup/pod/box/cpu.max", "20000 100000\n");
  EXPECT_DOUBLE_EQ(Read().quota.value(), 0.2);
  EXPECT_EQ(Read().num_compute_threads(), 1);
}

TEST_F(CpuTopologyTest, QuotaAboveTheMaskDoesNotInventCpus) {
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/cpu.max", "6400000 100000\n");
  EXPECT_EQ(Read().num_usable(), 4);
}

TEST(CpuTopologyOfThisMachine, IsSane) {
  const CpuTopology topology = ReadCpuTopology();
  EXPECT_GE(topology.cpus.size(), topology.cores.size());
  EXPECT_GE(topology.num_compute_threads(), 1);
  EXPECT_LE(topology.num_compute_threads(), topology.num_usable());
}

}  // namespace
}  // namespace baton
