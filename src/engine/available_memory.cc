#include "engine/available_memory.h"

#include <algorithm>

#include "base/cgroup.h"

namespace baton {
namespace {

std::optional<uint64_t> AvailableInSystem(const SystemFolders& system) {
  const std::optional<uint64_t> kilobytes = NumberAfter(system.proc / "meminfo", "MemAvailable:");
  if (!kilobytes || *kilobytes > UINT64_MAX / 1024) return std::nullopt;
  return *kilobytes * 1024;
}

}  // namespace

std::optional<uint64_t> AvailableMemory(const SystemFolders& system) {
  const std::optional<uint64_t> available = AvailableInSystem(system);
  const std::optional<uint64_t> left = CgroupMemoryLeft(system);
  if (!available || !left) return available ? available : left;
  return std::min(*available, *left);
}

}  // namespace baton
