#include "forward/phase.h"

namespace baton {

void StepPhase::Reserve(int64_t max_sequences, int64_t max_blocks) {
  blocks_.reserve(static_cast<size_t>(max_blocks));
  first_block_.reserve(static_cast<size_t>(max_sequences));
  attention_.reserve(static_cast<size_t>(max_sequences));
  writes_.reserve(static_cast<size_t>(max_sequences));
}

void StepPhase::Clear() {
  blocks_.clear();
  first_block_.clear();
  attention_.clear();
  writes_.clear();
}

void StepPhase::Add(const SequenceStep& sequence, int64_t first_row, const BlockPool& pool) {
  first_block_.push_back(blocks_.size());
  for (BlockId block : sequence.blocks) blocks_.push_back(pool.Data(block));
  attention_.push_back({.first_row = first_row,
                        .num_rows = sequence.num_rows(),
                        .first_position = sequence.first_position});
  writes_.push_back({.first_row = first_row,
                     .num_rows = sequence.num_rows(),
                     .first_position = sequence.first_position});
}

void StepPhase::Finish() {
  for (size_t i = 0; i < attention_.size(); ++i) {
    attention_[i].blocks = blocks_.data() + first_block_[i];
    writes_[i].blocks = blocks_.data() + first_block_[i];
  }
}

AttentionArgs StepPhase::Arguments(const PhaseArgs& args) const {
  return {.q = args.q,
          .out = args.out,
          .sequences = attention_,
          .shape = args.shape,
          .layer = args.layer,
          .workspace = args.workspace};
}

}  // namespace baton
