// Prefill: chunks of prompts, all positions of a chunk in parallel.
//
// Dense, or block-sparse by a policy (kernels/attention_prefill_sparse.h). Under a policy each
// sequence says how long its whole prompt is; one that does not is dense.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "forward/phase.h"
#include "kernels/attention_prefill_sparse.h"

namespace baton {

// What a sparse prefill kept and what it took: one sequence, all its steps so far.
struct PrefillReport {
  std::vector<BlockCounts> layers;  // one for each layer; all zero where attention is dense
  SparseTimes times;                // of all threads together
};

// How prompts are read.
struct PrefillPolicyArgs {
  // Of all sequences; null: dense.
  const SparsePolicy* policy = nullptr;
  // Or each one's own, in the order of the step's plan; null: dense. Empty: `policy` counts.
  std::span<const SparsePolicy* const> policies = {};
  int layer = 0;
  // One for each sequence of the step's plan, in its order; an entry, or the whole, may be missing.
  std::span<PrefillReport* const> reports = {};
  Clock* clock = nullptr;            // for the reports' times; null for none
  TileObserver* observer = nullptr;  // null for none
};

// The sequences of a step that are in prefill.
class PrefillPhase : public StepPhase {
 public:
  void Reserve(int64_t max_sequences, int64_t max_blocks);
  void Clear();
  // `index` is the sequence's place in the plan.
  void Add(const SequenceStep& sequence, int64_t index, int64_t first_row, const BlockPool& pool);

  // Whether rows that a policy rules come in whole tiles, but for the prompt's last one: a tile's
  // rows choose together.
  // Errors: invalid, with the first sequence that cuts one.
  Result<> CheckTiles(const PrefillPolicyArgs& policy, const AttentionShape& shape) const;
  // Requires: CheckTiles; the layer's K and V of the step are written.
  void Attend(const PhaseArgs& args, const PrefillPolicyArgs& policy) const;

  struct WorkspaceNeeds {
    const SparsePolicy* policy = nullptr;
    int64_t max_rows = 0;
    int64_t max_context = 0;
    int num_threads = 1;
  };
  // For any step. Units: bytes.
  static size_t WorkspaceBytes(const AttentionShape& shape, const WorkspaceNeeds& needs);

 private:
  // Of a sequence of this phase; null: it is dense.
  const SparsePolicy* PolicyOf(const PrefillPolicyArgs& policy, size_t sequence) const;
  void AttendSparse(const PhaseArgs& args, const PrefillPolicyArgs& policy, size_t sequence) const;

  std::vector<int64_t> prompt_tokens_;  // 0: dense
  std::vector<int64_t> plan_index_;
};

}  // namespace baton
