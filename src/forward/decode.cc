#include "forward/decode.h"

#include "kernels/attention_decode.h"

namespace baton {

void DecodePhase::Attend(const PhaseArgs& args) const {
  if (empty()) return;
  DecodeAttention(args.context, Arguments(args));
}

size_t DecodePhase::WorkspaceBytes(const AttentionShape& shape, int num_threads) const {
  return empty() ? 0 : DecodeAttentionWorkspaceBytes(shape, attention(), num_threads);
}

}  // namespace baton
