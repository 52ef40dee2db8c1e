// Prefill: chunks of prompts, all positions of a chunk in parallel.
#pragma once

#include "forward/phase.h"

namespace baton {

// The sequences of a step that are in prefill.
class PrefillPhase : public StepPhase {
 public:
  // Requires: the layer's K and V of the step are written.
  void Attend(const PhaseArgs& args) const;

  // For any step. Units: bytes.
  static size_t WorkspaceBytes(const AttentionShape& shape, int num_threads);
};

}  // namespace baton
