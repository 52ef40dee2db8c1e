#include "forward/decode.h"

#include <algorithm>
#include <vector>

#include "kernels/attention_decode.h"

namespace baton {

void DecodePhase::Attend(const PhaseArgs& args) const {
  if (empty()) return;
  DecodeAttention(args.context, Arguments(args));
}

size_t DecodePhase::WorkspaceBytes(const AttentionShape& shape, const Limits& limits) {
  const std::vector<AttentionSequence> longest(
      static_cast<size_t>(limits.max_sequences),
      AttentionSequence{.first_row = 0,
                        .num_rows = 1,
                        .first_position = std::max<int64_t>(limits.max_context, 1) - 1,
                        .blocks = nullptr});
  return DecodeAttentionWorkspaceBytes(shape, longest, limits.num_threads);
}

}  // namespace baton
