// Whose blocks are taken when a running sequence needs one and there is none: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace baton {

// A running sequence. Its order is its place in the list: the oldest first.
struct PreemptionCandidate {
  int32_t priority = 0;
  int64_t progress = 0;  // tokens gained since it was last admitted
};

// The victim: of those that have gained min_progress, never the oldest, the one of the lowest
// priority, and of these the youngest (S-5). Nothing if there is none.
std::optional<size_t> ChooseVictim(std::span<const PreemptionCandidate> candidates,
                                   int64_t min_progress);

}  // namespace baton
