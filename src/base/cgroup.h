// What the control groups (cgroups, v1 and v2) of this process allow it.
//
// A limit holds for a group and for all groups below it, so each function takes the tightest of the
// process's own group and of all above it. In a container the path that /proc/self/cgroup names may
// not be mounted; the walk up then ends at the mount's root, which is the container's group. What
// cannot be read, or is no number, counts as no limit.
#pragma once

#include <cstdint>
#include <optional>

#include "base/system_files.h"

namespace baton {

// CPU seconds per second, if they are limited. Units: CPUs.
std::optional<double> CgroupCpuQuota(const SystemFolders& system);

// Memory that can still be taken, if it is limited. Pages of files that the kernel can drop count
// as free. Units: bytes.
std::optional<uint64_t> CgroupMemoryLeft(const SystemFolders& system);

}  // namespace baton
