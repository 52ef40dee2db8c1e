// Which CPUs this process may use, and how much of them.
#pragma once

#include <optional>
#include <vector>

#include "base/system_files.h"

namespace baton {

// The CPUs of this process.
struct CpuTopology {
  // CPUs allowed by the affinity mask, ascending; never empty.
  std::vector<int> cpus;
  // For each physical core with an allowed CPU, its lowest allowed CPU, ascending; never empty.
  std::vector<int> cores;
  // CPU seconds per second that the cgroups allow, if they limit it (v1 and v2, the tightest of
  // the hierarchy). Units: CPUs.
  std::optional<double> quota;

  // CPUs that can run at once: those of the mask, or the quota if that is less; at least 1.
  int num_usable() const;

  // Threads to compute with when nobody says: one per physical core, within the quota (rounded
  // down: a thread beyond it stalls all the others at the end of each period); at least 1.
  int num_compute_threads() const;
};

// What a topology is read from.
struct TopologySource {
  SystemFolders system;
  std::vector<int> affinity;  // CPUs allowed
};

// The topology of this process. What cannot be read counts as not limited.
CpuTopology ReadCpuTopology();

// The topology as the files of the source tell it.
// Requires: source.affinity is ascending and not empty.
CpuTopology ReadCpuTopologyFrom(const TopologySource& source);

}  // namespace baton
