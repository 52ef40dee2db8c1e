#include "forward/prefill.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kernels/attention_prefill.h"

namespace baton {

void PrefillPhase::Reserve(int64_t max_sequences, int64_t max_blocks) {
  StepPhase::Reserve(max_sequences, max_blocks);
  prompt_tokens_.reserve(static_cast<size_t>(max_sequences));
  plan_index_.reserve(static_cast<size_t>(max_sequences));
}

void PrefillPhase::Clear() {
  StepPhase::Clear();
  prompt_tokens_.clear();
  plan_index_.clear();
}

void PrefillPhase::Add(const SequenceStep& sequence, int64_t index, int64_t first_row,
                       const BlockPool& pool) {
  StepPhase::Add(sequence, first_row, pool);
  prompt_tokens_.push_back(sequence.prompt_tokens);
  plan_index_.push_back(index);
}

const SparsePolicy* PrefillPhase::PolicyOf(const PrefillPolicyArgs& policy, size_t sequence) const {
  if (prompt_tokens_[sequence] == 0) return nullptr;
  if (policy.policies.empty()) return policy.policy;
  return policy.policies[static_cast<size_t>(plan_index_[sequence])];
}

void PrefillPhase::Attend(const PhaseArgs& args, const PrefillPolicyArgs& policy) const {
  if (empty()) return;
  bool all_dense = true;
  for (size_t i = 0; i < prompt_tokens_.size(); ++i) {
    all_dense = all_dense && PolicyOf(policy, i) == nullptr;
  }
  if (all_dense) {
    PrefillAttention(args.context, Arguments(args));
    return;
  }
  // Sequence by sequence, so that each has its own policy and report; their tiles are many.
  for (size_t i = 0; i < prompt_tokens_.size(); ++i) AttendSparse(args, policy, i);
}

Result<> PrefillPhase::CheckTiles(const PrefillPolicyArgs& policy,
                                  const AttentionShape& shape) const {
  for (size_t i = 0; i < prompt_tokens_.size(); ++i) {
    const SparsePolicy* own = PolicyOf(policy, i);
    if (own == nullptr) continue;
    const int64_t tile = TilePositions(*own, shape.GroupSize());
    const int64_t first = attention()[i].first_position;
    const int64_t end = first + attention()[i].num_rows;
    const auto cuts = [&](int64_t position) {
      return position < prompt_tokens_[i] && position % tile != 0;
    };
    if (!cuts(first) && !cuts(end)) continue;
    return Fail(ErrorCode::kInvalid,
                fmt::format("sequence {}: positions {} to {} of a prompt of {} cut a tile of {} "
                            "positions of its sparse prefill; read whole tiles",
                            plan_index_[i], first, end, prompt_tokens_[i], tile));
  }
  return {};
}

void PrefillPhase::AttendSparse(const PhaseArgs& args, const PrefillPolicyArgs& policy,
                                size_t sequence) const {
  AttentionArgs attention = Arguments(args);
  attention.sequences = attention.sequences.subspan(sequence, 1);
  const SparsePolicy* own = PolicyOf(policy, sequence);
  if (own == nullptr) {
    PrefillAttention(args.context, attention);
    return;
  }
  const auto index = static_cast<size_t>(plan_index_[sequence]);
  PrefillReport* report = index < policy.reports.size() ? policy.reports[index] : nullptr;
  std::array<BlockCounts, BlockLayout::kMaxKvHeads> counts = {};
  const auto num_heads = static_cast<size_t>(args.shape.num_kv_heads);
  SparsePrefillAttention(
      args.context,
      {.attention = attention,
       .policy = own,
       .layer = policy.layer,
       .prompt_tokens = std::span(prompt_tokens_).subspan(sequence, 1),
       .counts = report != nullptr ? std::span(counts).first(num_heads) : std::span<BlockCounts>(),
       .observer = policy.observer,
       .clock = report != nullptr ? policy.clock : nullptr,
       .times = report != nullptr ? &report->times : nullptr});
  if (report == nullptr) return;
  BlockCounts& sum = report->layers[static_cast<size_t>(policy.layer)];
  for (size_t i = 0; i < num_heads; ++i) {
    sum.kept += counts[i].kept;
    sum.candidates += counts[i].candidates;
  }
}

size_t PrefillPhase::WorkspaceBytes(const AttentionShape& shape, const WorkspaceNeeds& needs) {
  const size_t dense = PrefillAttentionWorkspaceBytes(shape, needs.num_threads);
  if (needs.policy == nullptr) return dense;
  const int64_t rows = std::min(needs.max_rows, needs.max_context);
  const AttentionSequence longest{.num_rows = rows, .first_position = needs.max_context - rows};
  return std::max(dense, SparsePrefillWorkspaceBytes(shape, *needs.policy, std::span(&longest, 1),
                                                     needs.num_threads));
}

}  // namespace baton
