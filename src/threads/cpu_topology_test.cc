#include "threads/cpu_topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace baton {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

class CpuTopologyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) / ("topology_" + std::to_string(getpid()));
    fs::remove_all(root_);
    source_.proc = root_ / "proc";
    source_.sys = root_ / "sys";
    source_.affinity = {0, 1, 2, 3};
  }
  void TearDown() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void WriteSiblings(int cpu, const std::string& list) {
    Write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
          list + "\n");
  }
  CpuTopology Read() const { return ReadCpuTopologyFrom(source_); }

  fs::path root_;
  TopologySource source_;
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
  source_.affinity = {1, 2, 3};
  WriteSiblings(1, "0-1");
  WriteSiblings(2, "2-3");
  WriteSiblings(3, "2-3");
  EXPECT_THAT(Read().cores, ElementsAre(1, 2));
}

TEST_F(CpuTopologyTest, VersionTwoTakesTheTightestOfTheHierarchy) {
  Write("proc/self/cgroup", "0::/pod/box\n");
  Write("sys/fs/cgroup/pod/cpu.max", "150000 100000\n");
  Write("sys/fs/cgroup/pod/box/cpu.max", "max 100000\n");
  EXPECT_DOUBLE_EQ(Read().quota.value(), 1.5);
  EXPECT_EQ(Read().num_usable(), 1);
  Write("sys/fs/cgroup/pod/box/cpu.max", "20000 100000\n");
  EXPECT_DOUBLE_EQ(Read().quota.value(), 0.2);
  EXPECT_EQ(Read().num_compute_threads(), 1);
}

TEST_F(CpuTopologyTest, VersionTwoInAContainerReadsTheRootOfTheMount) {
  Write("proc/self/cgroup", "0::/not/mounted/here\n");
  Write("sys/fs/cgroup/cpu.max", "300000 100000\n");
  EXPECT_EQ(Read().num_usable(), 3);
}

TEST_F(CpuTopologyTest, VersionOneReadsQuotaAndPeriod) {
  Write("proc/self/cgroup", "5:memory:/a\n4:cpu,cpuacct:/a\n1:cpuset:/b\n");
  Write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "200000\n");
  Write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(Read().quota.value(), 2.0);
  Write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n");
  EXPECT_FALSE(Read().quota.has_value());
}

TEST_F(CpuTopologyTest, QuotaAboveTheMaskDoesNotInventCpus) {
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/cpu.max", "6400000 100000\n");
  EXPECT_EQ(Read().num_usable(), 4);
}

TEST_F(CpuTopologyTest, NonsenseIsNoLimit) {
  Write("proc/self/cgroup", "\n:\n0:\n0::\nx:cpu:/a\n0::/a\n" + std::string(9000, 'q'));
  for (const char* text : {"", "max", "5", " ", "-5 10", "5 0", "a b", "99999999999999999999 1"}) {
    Write("sys/fs/cgroup/a/cpu.max", text);
    EXPECT_FALSE(Read().quota.has_value()) << text;
  }
}

TEST(CpuTopologyOfThisMachine, IsSane) {
  const CpuTopology topology = ReadCpuTopology();
  EXPECT_GE(topology.cpus.size(), topology.cores.size());
  EXPECT_GE(topology.num_compute_threads(), 1);
  EXPECT_LE(topology.num_compute_threads(), topology.num_usable());
}

}  // namespace
}  // namespace baton
