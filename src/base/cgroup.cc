#include "base/cgroup.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace baton {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxDepth = 64;

std::optional<double> Ratio(std::optional<uint64_t> quota, std::optional<uint64_t> period) {
  if (!quota || !period || *quota == 0 || *period == 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

// cpu.max holds "max 100000" or "150000 100000".
std::optional<double> CpuQuotaV2(const fs::path& group) {
  const std::vector<std::string> lines = ReadSystemLines(group / "cpu.max");
  if (lines.empty()) return std::nullopt;
  const std::string_view line = lines.front();
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  return Ratio(LeadingNumber(line), LeadingNumber(line.substr(space)));
}

// The quota file holds -1 for "no limit".
std::optional<double> CpuQuotaV1(const fs::path& group) {
  return Ratio(FirstNumberIn(group / "cpu.cfs_quota_us"),
               FirstNumberIn(group / "cpu.cfs_period_us"));
}

// What is left of a limit. `droppable` is the file pages that the kernel can drop; counters are
// read one after the other, so they may disagree.
std::optional<uint64_t> Left(std::optional<uint64_t> limit, std::optional<uint64_t> current,
                             std::optional<uint64_t> droppable) {
  if (!limit || !current) return std::nullopt;
  const uint64_t used = *current - std::min(*current, droppable.value_or(0));
  return *limit - std::min(*limit, used);
}

std::optional<uint64_t> MemoryLeftV2(const fs::path& group) {
  return Left(FirstNumberIn(group / "memory.max"), FirstNumberIn(group / "memory.current"),
              NumberAfter(group / "memory.stat", "inactive_file "));
}

std::optional<uint64_t> MemoryLeftV1(const fs::path& group) {
  return Left(FirstNumberIn(group / "memory.limit_in_bytes"),
              FirstNumberIn(group / "memory.usage_in_bytes"),
              NumberAfter(group / "memory.stat", "total_inactive_file "));
}

// One kind of limit: the name of its controller, and how a group's folder states it.
template <typename T>
struct Limit {
  std::string_view controller;
  std::optional<T> (*v1)(const fs::path& group);
  std::optional<T> (*v2)(const fs::path& group);
};

template <typename T>
std::optional<T> Tighter(std::optional<T> a, std::optional<T> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

template <typename T>
std::optional<T> TightestAbove(const fs::path& mount, fs::path group,
                               std::optional<T> (*limit)(const fs::path& group)) {
  std::optional<T> tightest;
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    tightest = Tighter(tightest, limit(mount / group.relative_path()));
    if (!group.has_relative_path()) break;
    group = group.parent_path();
  }
  return tightest;
}

bool Lists(std::string_view controllers, std::string_view wanted) {
  while (!controllers.empty()) {
    const size_t comma = controllers.find(',');
    if (controllers.substr(0, comma) == wanted) return true;
    if (comma == std::string_view::npos) return false;
    controllers.remove_prefix(comma + 1);
  }
  return false;
}

// Lines of /proc/self/cgroup: "hierarchy:controllers:/path"; version 2 has no controllers, and a
// machine with both versions mounts it as "unified".
template <typename T>
std::optional<T> Tightest(const SystemFolders& system, const Limit<T>& limit) {
  const fs::path root = system.sys / "fs/cgroup";
  std::optional<T> tightest;
  for (const std::string& line : ReadSystemLines(system.proc / "self/cgroup")) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = line.substr(second + 1);
    if (controllers.empty()) {
      for (const fs::path& mount : {root, root / "unified"}) {
        tightest = Tighter(tightest, TightestAbove(mount, group, limit.v2));
      }
    } else if (Lists(controllers, limit.controller)) {
      for (const fs::path& mount : {root / controllers, root / limit.controller}) {
        tightest = Tighter(tightest, TightestAbove(mount, group, limit.v1));
      }
    }
  }
  return tightest;
}

}  // namespace

std::optional<double> CgroupCpuQuota(const SystemFolders& system) {
  return Tightest<double>(system, {.controller = "cpu", .v1 = CpuQuotaV1, .v2 = CpuQuotaV2});
}

std::optional<uint64_t> CgroupMemoryLeft(const SystemFolders& system) {
  return Tightest<uint64_t>(system,
                            {.controller = "memory", .v1 = MemoryLeftV1, .v2 = MemoryLeftV2});
}

}  // namespace baton
