#include "schedule/preemption.h"

namespace baton {

std::optional<size_t> ChooseVictim(std::span<const PreemptionCandidate> candidates,
                                   int64_t min_progress) {
  std::optional<size_t> victim;
  for (size_t i = 1; i < candidates.size(); ++i) {
    if (candidates[i].progress < min_progress) continue;
    if (!victim || candidates[i].priority <= candidates[*victim].priority) victim = i;
  }
  return victim;
}

}  // namespace baton
