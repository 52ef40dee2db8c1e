// How much memory this process can still take.
#pragma once

#include <cstdint>
#include <optional>

#include "base/system_files.h"

namespace baton {

// What the system calls available, within the limits of the process's cgroups. Pages of files that
// the kernel can drop count as free in both. Nothing if neither can be read. Units: bytes.
std::optional<uint64_t> AvailableMemory(const SystemFolders& system);

}  // namespace baton
