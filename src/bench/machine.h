// What the system says about the machine: for reports, and to size work by its caches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/system_files.h"

namespace baton {

// A data cache.
struct Cache {
  int level = 0;
  uint64_t bytes = 0;
  int num_sharing = 1;  // CPUs that share it
};

struct Machine {
  std::string cpu_name;       // "unknown" if the system does not say
  int num_cpus = 1;           // that this process may use
  int num_cores = 1;          // physical ones among them
  std::vector<Cache> caches;  // by level; those that the system tells
  uint64_t memory_bytes = 0;  // 0 if unknown

  // The size of a level, or what is usual where the system does not tell it: 32 KiB, 1 MiB, 32 MiB.
  // Requires: level is 1, 2 or 3.
  uint64_t CacheBytes(int level) const;
  bool IsCacheKnown(int level) const;
};

// The machine of this process, its caches those of its first CPU. What cannot be read stays
// unknown.
Machine ReadMachine(const SystemFolders& system);

// The most memory this process has held at once, 0 if the system does not say. Units: bytes.
uint64_t PeakResidentBytes(const SystemFolders& system);

}  // namespace baton
