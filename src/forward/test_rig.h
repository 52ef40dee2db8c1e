// Sequences run through the forward pass in any order and in any company, for tests.
//
// What is compared is a digest of each position's logits: equal digests, equal bits.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "forward/step_forward.h"
#include "kernels/isa.h"
#include "kv/block_table.h"
#include "model/model.h"
#include "threads/pool.h"

namespace baton {

// Tokens drawn from a seed, all of them of the vocabulary.
inline std::vector<TokenId> RandomTokens(int64_t count, int64_t vocab_size, uint64_t seed) {
  RandomStream random({.seed = seed, .stream = 7});
  std::vector<TokenId> tokens(static_cast<size_t>(count));
  for (TokenId& token : tokens) {
    token = static_cast<TokenId>(random.NextBelow(static_cast<uint64_t>(vocab_size)));
  }
  return tokens;
}

struct RigOptions {
  Isa isa = BestIsa();
  int num_threads = 1;
  Precision precision = Precision::kFast;
  KvType kv_type = KvType::kF16;
  int64_t max_rows = 1024;
  int64_t max_context = 2048;
  int32_t max_sequences = 8;
  uint64_t block_shuffle = 0;  // 0: blocks are given out in order
  // Of rows with logits, only those at every nth position and the sequence's last get them: the
  // output matrix is most of the work of a small model with a large vocabulary.
  int64_t logit_stride = 1;
};

class ForwardRig {
 public:
  struct Sequence {
    std::vector<TokenId> tokens;
    BlockTable table;
    std::vector<uint64_t> digests;  // by position; 0 where no logits were asked for

    int64_t computed() const { return table.num_tokens(); }
  };

  // What a sequence does in a step: its next `count` tokens.
  struct Part {
    size_t sequence = 0;
    int64_t count = 0;
    Phase phase = Phase::kPrefill;
    LogitRows logits = LogitRows::kAll;
  };

  ForwardRig(const Model& model, const RigOptions& options) : options_(options) {
    threads_ = *ThreadPool::Make(options.num_threads);
    const int64_t blocks = NumBlocksFor(options.max_context) * options.max_sequences;
    pool_.emplace(
        *BlockPool::Make(*KvLayoutOf(model.spec(), options.kv_type), static_cast<int32_t>(blocks)));
    if (options.block_shuffle != 0) Shuffle();
    forward_.emplace(*StepForward::Make(model, *pool_,
                                        {.table = KernelsFor(options.isa), .pool = *threads_},
                                        {.max_sequences = options.max_sequences,
                                         .max_rows = options.max_rows,
                                         .max_context = options.max_context,
                                         .precision = options.precision}));
    sequences_.reserve(64);
  }
  ~ForwardRig() {
    sequences_.clear();
    EXPECT_TRUE(pool_->CheckIntegrity().has_value());
    EXPECT_EQ(pool_->num_owned(), 0);
  }

  size_t Add(std::vector<TokenId> tokens) {
    const size_t count = tokens.size();
    sequences_.push_back({std::move(tokens), BlockTable(*pool_, options_.max_context),
                          std::vector<uint64_t>(count, 0)});
    return sequences_.size() - 1;
  }

  // A sequence that shares the first `num_tokens` tokens' blocks with another.
  size_t Fork(size_t of, int64_t num_tokens, std::vector<TokenId> tokens) {
    BlockTable table = sequences_[of].table.Fork();
    table.Truncate(num_tokens);
    const size_t count = tokens.size();
    sequences_.push_back({std::move(tokens), std::move(table), std::vector<uint64_t>(count, 0)});
    return sequences_.size() - 1;
  }

  Sequence& sequence(size_t i) { return sequences_[i]; }
  StepForward& forward() { return *forward_; }

  // Called with the logits of each row that has some, besides the digest.
  using Visit = std::function<void(size_t sequence, int64_t position, std::span<const float>)>;

  void Step(const std::vector<Part>& parts, const Visit& visit) {
    StepPlan plan;
    for (const Part& part : parts) {
      Sequence& sequence = sequences_[part.sequence];
      ASSERT_TRUE(sequence.table.Reserve(part.count).has_value());
      SequenceStep& step = plan.sequences.emplace_back();
      step.slot = static_cast<int32_t>(plan.sequences.size()) - 1;
      step.first_position = sequence.computed();
      const auto first = sequence.tokens.begin() + sequence.computed();
      step.tokens.assign(first, first + part.count);
      step.blocks.assign(sequence.table.blocks().begin(), sequence.table.blocks().end());
      step.phase = part.phase;
      step.logits = part.logits;
      if (part.logits == LogitRows::kAll) ThinOut(std::ssize(sequence.tokens), step);
    }
    const std::atomic<bool> cancel = false;
    const auto note_row = [&](const RowLogits& row) {
      const size_t index = parts[static_cast<size_t>(row.sequence)].sequence;
      const int64_t position = sequences_[index].computed() + row.row;
      const std::string_view bytes(reinterpret_cast<const char*>(row.logits.data()),
                                   row.logits.size_bytes());
      sequences_[index].digests[static_cast<size_t>(position)] =
          std::hash<std::string_view>()(bytes) | 1;
      if (visit) visit(index, position, row.logits);
    };
    const auto note = [&](std::span<const RowLogits> rows) {
      for (const RowLogits& row : rows) note_row(row);
    };
    const Result<> run = forward_->Run(plan, note, {.cancel = cancel});
    ASSERT_TRUE(run.has_value()) << run.error().message;
    for (const Part& part : parts) sequences_[part.sequence].table.Append(part.count);
  }

  // Computes the rest of a sequence alone, `chunk` tokens a step.
  void Finish(size_t index, int64_t chunk, Phase phase, LogitRows logits) {
    Sequence& sequence = sequences_[index];
    while (sequence.computed() < std::ssize(sequence.tokens)) {
      const int64_t count = std::min(chunk, std::ssize(sequence.tokens) - sequence.computed());
      Step({{.sequence = index, .count = count, .phase = phase, .logits = logits}}, nullptr);
      if (testing::Test::HasFatalFailure()) return;
    }
  }

 private:
  void ThinOut(int64_t sequence_tokens, SequenceStep& step) const {
    if (options_.logit_stride == 1) return;
    step.logits = LogitRows::kList;
    for (int64_t i = 0; i < step.num_rows(); ++i) {
      const int64_t end = step.first_position + i + 1;
      if (end % options_.logit_stride == 0 || end == sequence_tokens) {
        step.logit_rows.push_back(static_cast<int32_t>(i));
      }
    }
    if (step.logit_rows.empty()) step.logits = LogitRows::kNone;
  }

  // Takes all blocks and gives them back in random order.
  void Shuffle() {
    std::vector<BlockId> blocks;
    while (pool_->num_free() > 0) blocks.push_back(*pool_->Allocate());
    RandomStream random({.seed = options_.block_shuffle, .stream = 0});
    for (size_t i = blocks.size(); i > 1; --i)
      std::swap(blocks[i - 1], blocks[random.NextBelow(i)]);
    for (BlockId block : blocks) pool_->Release(block);
  }

  RigOptions options_;
  std::unique_ptr<ThreadPool> threads_;
  std::optional<BlockPool> pool_;
  std::optional<StepForward> forward_;
  std::vector<Sequence> sequences_;
};

// The digests of all positions, computed alone in chunks.
inline std::vector<uint64_t> RunAlone(const Model& model, const RigOptions& options,
                                      const std::vector<TokenId>& tokens, int64_t chunk) {
  ForwardRig rig(model, options);
  const size_t sequence = rig.Add(tokens);
  rig.Finish(sequence, chunk, Phase::kPrefill, LogitRows::kAll);
  return rig.sequence(sequence).digests;
}

}  // namespace baton
