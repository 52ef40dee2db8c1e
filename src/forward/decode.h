// Decode: one new token per sequence, over all that the sequence has cached.
#pragma once

#include "forward/phase.h"

namespace baton {

// The sequences of a step that are in decode.
class DecodePhase : public StepPhase {
 public:
  // Requires: the layer's K and V of the step are written.
  void Attend(const PhaseArgs& args) const;

  // For any step of up to max_sequences sequences. Units: bytes.
  struct Limits {
    int64_t max_sequences = 0;
    int64_t max_context = 0;
    int num_threads = 1;
  };
  static size_t WorkspaceBytes(const AttentionShape& shape, const Limits& limits);
};

}  // namespace baton
