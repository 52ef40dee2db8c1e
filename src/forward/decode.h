// Decode: one new token per sequence, over all that the sequence has cached.
#pragma once

#include "forward/phase.h"

namespace baton {

// The sequences of a step that are in decode.
class DecodePhase : public StepPhase {
 public:
  // Requires: the layer's K and V of the step are written.
  void Attend(const PhaseArgs& args) const;

  // Of this step. Units: bytes.
  size_t WorkspaceBytes(const AttentionShape& shape, int num_threads) const;
};

}  // namespace baton
