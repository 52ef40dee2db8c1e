#include "forward/prefill.h"

#include "kernels/attention_prefill.h"

namespace baton {

void PrefillPhase::Attend(const PhaseArgs& args) const {
  if (empty()) return;
  PrefillAttention(args.context, Arguments(args));
}

size_t PrefillPhase::WorkspaceBytes(const AttentionShape& shape, int num_threads) {
  return PrefillAttentionWorkspaceBytes(shape, num_threads);
}

}  // namespace baton
