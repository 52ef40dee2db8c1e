// How much memory this process can still take.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace baton {

// Where the system describes itself; other folders in tests.
struct MemorySource {
  std::filesystem::path proc = "/proc";
  std::filesystem::path sys = "/sys";
};

// What the system calls available, within the limits of the process's cgroup and of all above it
// (v1 and v2). Pages of files that the kernel can drop count as free in both. Nothing if neither
// can be read. Units: bytes.
std::optional<uint64_t> AvailableMemory(const MemorySource& source);

}  // namespace baton
