#include "threads/cpu_topology.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <set>
#include <string>
#include <string_view>

#include "base/check.h"

namespace baton {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxCpus = 1 << 16;
constexpr int kMaxLines = 256;
constexpr int kMaxDepth = 64;
constexpr std::streamsize kMaxLineBytes = 4096;

// The first lines of a small file; empty if it cannot be read.
std::vector<std::string> ReadLines(const fs::path& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  std::string buffer(kMaxLineBytes, '\0');
  while (std::ssize(lines) < kMaxLines && file.getline(buffer.data(), kMaxLineBytes)) {
    lines.emplace_back(buffer.c_str());
  }
  return lines;
}

// The integer at the front of the text.
std::optional<long long> LeadingInteger(std::string_view text) {
  long long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::optional<long long> ReadInteger(const fs::path& path) {
  const std::vector<std::string> lines = ReadLines(path);
  if (lines.empty()) return std::nullopt;
  return LeadingInteger(lines.front());
}

std::optional<double> Ratio(std::optional<long long> quota, std::optional<long long> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

// cpu.max holds "max 100000" or "150000 100000".
std::optional<double> QuotaV2(const fs::path& folder) {
  const std::vector<std::string> lines = ReadLines(folder / "cpu.max");
  if (lines.empty()) return std::nullopt;
  const std::string& line = lines.front();
  const size_t space = line.find(' ');
  if (space == std::string::npos) return std::nullopt;
  return Ratio(LeadingInteger(line), LeadingInteger(std::string_view(line).substr(space + 1)));
}

// The quota file holds -1 for "no limit".
std::optional<double> QuotaV1(const fs::path& folder) {
  return Ratio(ReadInteger(folder / "cpu.cfs_quota_us"), ReadInteger(folder / "cpu.cfs_period_us"));
}

std::optional<double> Tighter(std::optional<double> a, std::optional<double> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

// The tightest limit of the group and of all groups above it. In a container the path may name
// folders that are not mounted there; the walk then ends at the mount's root, which is our group.
template <typename QuotaOf>
std::optional<double> TightestAbove(const fs::path& mount, fs::path group, const QuotaOf& quota) {
  std::optional<double> tightest;
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    tightest = Tighter(tightest, quota(mount / group.relative_path()));
    if (!group.has_relative_path()) break;
    group = group.parent_path();
  }
  return tightest;
}

bool ListsCpuController(std::string_view controllers) {
  while (!controllers.empty()) {
    const size_t comma = controllers.find(',');
    if (controllers.substr(0, comma) == "cpu") return true;
    if (comma == std::string_view::npos) return false;
    controllers.remove_prefix(comma + 1);
  }
  return false;
}

// Lines of /proc/self/cgroup: "hierarchy:controllers:/path"; version 2 has hierarchy 0 and no
// controllers.
std::optional<double> ReadQuota(const TopologySource& source) {
  std::optional<double> tightest;
  const fs::path root = source.sys / "fs/cgroup";
  for (const std::string& line : ReadLines(source.proc / "self/cgroup")) {
    const size_t first = line.find(':');
    if (first == std::string::npos) continue;
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = line.substr(second + 1);
    if (controllers.empty()) {
      for (const fs::path& mount : {root, root / "unified"}) {
        tightest = Tighter(tightest, TightestAbove(mount, group, QuotaV2));
      }
    } else if (ListsCpuController(controllers)) {
      for (const fs::path& mount : {root / controllers, root / "cpu"}) {
        tightest = Tighter(tightest, TightestAbove(mount, group, QuotaV1));
      }
    }
  }
  return tightest;
}

// One CPU per physical core. thread_siblings_list starts with the lowest CPU of the core, which
// names the core even if that CPU itself is not ours.
std::vector<int> ReadCores(const TopologySource& source) {
  std::vector<int> cores;
  std::set<long long> seen;
  for (const int cpu : source.affinity) {
    const fs::path file = source.sys / "devices/system/cpu" / ("cpu" + std::to_string(cpu)) /
                          "topology/thread_siblings_list";
    if (seen.insert(ReadInteger(file).value_or(cpu)).second) cores.push_back(cpu);
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
  topology.quota = ReadQuota(source);
  return topology;
}

}  // namespace baton
