#include "threads/cpu_topology.h"

#include <sched.h>

#include <algorithm>
#include <set>
#include <string>

#include "base/cgroup.h"
#include "base/check.h"

namespace baton {
namespace {

constexpr int kMaxCpus = 1 << 16;

// One CPU per physical core. thread_siblings_list starts with the lowest CPU of the core, which
// names the core even if that CPU itself is not ours.
std::vector<int> ReadCores(const TopologySource& source) {
  std::vector<int> cores;
  std::set<uint64_t> seen;
  for (const int cpu : source.affinity) {
    const std::filesystem::path file = source.system.sys / "devices/system/cpu" /
                                       ("cpu" + std::to_string(cpu)) /
                                       "topology/thread_siblings_list";
    const uint64_t alone = static_cast<uint64_t>(cpu);
    if (seen.insert(FirstNumberIn(file).value_or(alone)).second) cores.push_back(cpu);
  }
  return cores;
}

std::vector<int> ReadAffinity() {
  std::vector<int> cpus;
  for (int capacity = 1024; capacity <= kMaxCpus; capacity *= 2) {
    cpu_set_t* set = CPU_ALLOC(capacity);
    if (set == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(capacity);
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    for (int cpu = 0; known && cpu < capacity; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set)) cpus.push_back(cpu);
    }
    CPU_FREE(set);
    if (known) break;
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

int WithinQuota(size_t count, std::optional<double> quota) {
  const int all = static_cast<int>(count);
  if (!quota || *quota >= all) return all;
  return std::max(1, static_cast<int>(*quota));
}

}  // namespace

int CpuTopology::num_usable() const {
  return WithinQuota(cpus.size(), quota);
}

int CpuTopology::num_compute_threads() const {
  return WithinQuota(cores.size(), quota);
}

CpuTopology ReadCpuTopology() {
  TopologySource source;
  source.affinity = ReadAffinity();
  return ReadCpuTopologyFrom(source);
}

CpuTopology ReadCpuTopologyFrom(const TopologySource& source) {
  CHECK(!source.affinity.empty());
  CpuTopology topology;
  topology.cpus = source.affinity;
  topology.cores = ReadCores(source);
  topology.quota = CgroupCpuQuota(source.system);
  return topology;
}

}  // namespace baton
