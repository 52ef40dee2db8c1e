#include "base/cgroup.h"

#include <string>

#include "base/test_system_files.h"

namespace baton {
namespace {

class CgroupTest : public SystemFilesTest {
 protected:
  std::optional<double> Quota() const { return CgroupCpuQuota(system_); }
  std::optional<uint64_t> Left() const { return CgroupMemoryLeft(system_); }

  // The memory of a group of version 2 below the mount.
  void WriteMemory(const std::string& group, const std::string& max, const std::string& current) {
    Write("sys/fs/cgroup/" + group + "/memory.max", max + "\n");
    Write("sys/fs/cgroup/" + group + "/memory.current", current + "\n");
  }
};

TEST_F(CgroupTest, NothingReadableIsNoLimit) {
  EXPECT_EQ(Quota(), std::nullopt);
  EXPECT_EQ(Left(), std::nullopt);
  Write("proc/self/cgroup", "0::/gone\n4:cpu,cpuacct:/gone\n5:memory:/gone\n");
  EXPECT_EQ(Quota(), std::nullopt);
  EXPECT_EQ(Left(), std::nullopt);
}

TEST_F(CgroupTest, CpuVersionTwoTakesTheTightestOfTheHierarchy) {
  Write("proc/self/cgroup", "0::/pod/box/job\n");
  Write("sys/fs/cgroup/pod/cpu.max", "150000 100000\n");
  Write("sys/fs/cgroup/pod/box/cpu.max", "max 100000\n");
  EXPECT_DOUBLE_EQ(Quota().value(), 1.5);
  Write("sys/fs/cgroup/pod/box/job/cpu.max", "20000 100000\n");
  EXPECT_DOUBLE_EQ(Quota().value(), 0.2);
  Write("sys/fs/cgroup/cpu.max", "1000 100000\n");
  EXPECT_DOUBLE_EQ(Quota().value(), 0.01);
  Write("sys/fs/cgroup/other/cpu.max", "1 100000\n");  // not ours
  EXPECT_DOUBLE_EQ(Quota().value(), 0.01);
}

TEST_F(CgroupTest, CpuVersionOne) {
  Write("proc/self/cgroup", "5:memory:/a\n4:cpu,cpuacct:/a/b\n1:cpuset:/c\n");
  Write("sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "200000\n");
  Write("sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(Quota().value(), 2.0);
  Write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "50000\n");
  Write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(Quota().value(), 0.5);
  Write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n");
  Write("sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(Quota(), std::nullopt);
}

TEST_F(CgroupTest, BothVersionsMounted) {
  Write("proc/self/cgroup", "4:cpu:/a\n0::/a\n");
  Write("sys/fs/cgroup/unified/a/cpu.max", "300000 100000\n");
  EXPECT_DOUBLE_EQ(Quota().value(), 3.0);
  Write("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "100000\n");
  Write("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(Quota().value(), 1.0);
}

TEST_F(CgroupTest, InAContainerTheMountsRootIsOurGroup) {
  Write("proc/self/cgroup", "0::/docker/0123\n");
  Write("sys/fs/cgroup/cpu.max", "300000 100000\n");
  WriteMemory(".", "7000", "1000");
  EXPECT_DOUBLE_EQ(Quota().value(), 3.0);
  EXPECT_EQ(Left(), 6000u);
}

TEST_F(CgroupTest, MemoryIsTheLeastLeftInTheHierarchy) {
  Write("proc/self/cgroup", "0::/a/b/c\n");
  WriteMemory("a/b/c", "max", "100");
  EXPECT_EQ(Left(), std::nullopt);
  WriteMemory("a/b", "8000", "100");
  EXPECT_EQ(Left(), 7900u);
  WriteMemory("a", "5000", "4999");
  EXPECT_EQ(Left(), 1u);
  WriteMemory("a", "5000", "6000");  // over its limit
  EXPECT_EQ(Left(), 0u);
}

TEST_F(CgroupTest, DroppableFilePagesAreFree) {
  Write("proc/self/cgroup", "0::/job\n");
  WriteMemory("job", "5000000", "4900000");
  Write("sys/fs/cgroup/job/memory.stat",
        "anon 1000\nfile 4800000\ninactive_anon 3\ninactive_file 4000000\nactive_file 5\n");
  EXPECT_EQ(Left(), 4100000u);
  // Counters are read one after the other and may disagree.
  Write("sys/fs/cgroup/job/memory.stat", "inactive_file 9000000\n");
  EXPECT_EQ(Left(), 5000000u);
}

TEST_F(CgroupTest, MemoryVersionOne) {
  Write("proc/self/cgroup", "12:cpu,cpuacct:/job\n7:memory:/job\n1:name=systemd:/x\n0::/\n");
  Write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "900000\n");
  Write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "800000\n");
  Write("sys/fs/cgroup/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 300000\n");
  EXPECT_EQ(Left(), 400000u);
  // No limit is a huge number there: of a group without one, that above it holds.
  Write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(Left(), 9223372036854771712u - 500000u);
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "950000\n");
  Write("sys/fs/cgroup/memory/memory.usage_in_bytes", "900000\n");
  EXPECT_EQ(Left(), 50000u);
}

TEST_F(CgroupTest, NonsenseIsNoLimit) {
  Write("proc/self/cgroup",
        "\n:\n0:\nx:memory\n0::\nx:cpu:/a\n0::/a\n" + std::string(100000, ':') + "\n");
  for (const char* text :
       {"", "max", "5", " ", "-5 10", "5 0", "0 5", "5 max", "a b", "99999999999999999999 1"}) {
    Write("sys/fs/cgroup/a/cpu.max", text);
    EXPECT_EQ(Quota(), std::nullopt) << text;
  }
  for (const char* text : {"", "max", "-5", " ", "a", "99999999999999999999"}) {
    WriteMemory("a", text, "1");
    EXPECT_EQ(Left(), std::nullopt) << text;
    WriteMemory("a", "1", text);
    EXPECT_EQ(Left(), std::nullopt) << text;
  }
}

TEST_F(CgroupTest, ADeepPathIsLeftAfterSomeSteps) {
  std::string deep;
  for (int depth = 0; depth < 100; ++depth) deep += "/d";
  Write("proc/self/cgroup", "0::" + deep + "\n");
  Write("sys/fs/cgroup" + deep + "/cpu.max", "300000 100000\n");
  EXPECT_DOUBLE_EQ(Quota().value(), 3.0);
}

}  // namespace
}  // namespace baton
