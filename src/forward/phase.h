// What prefill and decode have in common: the sequences of one phase in a step, planned once and
// run per layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention.h"
#include "kernels/kv_write.h"
#include "kv/block_pool.h"
#include "step/step_plan.h"
#include "tensor/view.h"

namespace baton {

// One layer's attention. Shapes: q, out: [rows of the step, query size] f32.
struct PhaseArgs {
  const KernelContext& context;
  View2<const float> q;
  View2<float> out;
  AttentionShape shape;
  AttentionLayer layer;
  std::span<std::byte> workspace;
};

// Row ranges and block addresses of the sequences of one phase.
class StepPhase {
 public:
  // Makes room, so that steps up to these sizes allocate nothing.
  void Reserve(int64_t max_sequences, int64_t max_blocks);
  // Forgets the last step.
  void Clear();
  // Adds a sequence whose rows begin at first_row of the step.
  void Add(const SequenceStep& sequence, int64_t first_row, const BlockPool& pool);
  // Ends planning: addresses stay from here to Clear.
  void Finish();

  bool empty() const { return attention_.empty(); }
  // Valid after Finish.
  std::span<const AttentionSequence> attention() const { return attention_; }
  std::span<const KvWriteSequence> writes() const { return writes_; }

 protected:
  AttentionArgs Arguments(const PhaseArgs& args) const;

 private:
  std::vector<std::byte*> blocks_;  // of all sequences, one after the other
  std::vector<size_t> first_block_;
  std::vector<AttentionSequence> attention_;
  std::vector<KvWriteSequence> writes_;
};

}  // namespace baton
