// For tests of sparse prefill: a sequence with queries, keys and values, its blocks written by
// kv_write.h, and a run of the operator that keeps all it can tell.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/attention_prefill.h"
#include "kernels/attention_prefill_sparse.h"
#include "kernels/kv_write.h"
#include "kernels/sparse_ref.h"
#include "tensor/aligned_buffer.h"
#include "tensor/half.h"
#include "tensor/kv_record.h"

namespace baton {

// Numbers of a sequence, positions 0 on.
struct SparseInputs {
  AttentionShape shape;
  std::vector<float> q;  // [num_tokens][num_heads][head_dim]
  std::vector<float> k;  // [num_tokens][num_kv_heads][head_dim], values of binary16
  std::vector<float> v;

  int64_t num_tokens() const {
    return static_cast<int64_t>(k.size()) / (int64_t{shape.num_kv_heads} * shape.head_dim);
  }
  int64_t q_cols() const { return int64_t{shape.num_heads} * shape.head_dim; }
  int64_t kv_cols() const { return int64_t{shape.num_kv_heads} * shape.head_dim; }
};

struct SparseInputsArgs {
  AttentionShape shape;
  int64_t num_tokens = 0;
  uint32_t seed = 1;
  float query_range = 1.0f;
};

// Runs of about 40 tokens share a topic, and queries have topics of their own, so that energies
// differ from block to block.
inline SparseInputs MakeSparseInputs(const SparseInputsArgs& args) {
  constexpr size_t kTopics = 5;
  SparseInputs inputs = {.shape = args.shape, .q = {}, .k = {}, .v = {}};
  std::mt19937 random(args.seed);
  std::normal_distribution<float> normal;
  const auto rounded = [](float x) { return HalfToFloat(FloatToHalf(x)); };
  std::vector<float> topics(kTopics * static_cast<size_t>(inputs.kv_cols()));
  for (float& x : topics) x = normal(random);
  const float query_scale = args.query_range * 1.2f;
  size_t key_topic = 0;
  size_t query_topic = 0;
  for (int64_t t = 0; t < args.num_tokens; ++t) {
    if (random() % 40 == 0) key_topic = random() % kTopics;
    if (random() % 60 == 0) query_topic = random() % kTopics;
    const float* of_keys = topics.data() + key_topic * static_cast<size_t>(inputs.kv_cols());
    const float* of_query = topics.data() + query_topic * static_cast<size_t>(inputs.kv_cols());
    for (int64_t c = 0; c < inputs.kv_cols(); ++c) {
      inputs.k.push_back(rounded(of_keys[c] + 0.7f * normal(random)));
      inputs.v.push_back(rounded(of_keys[inputs.kv_cols() - 1 - c] + normal(random)));
    }
    for (int i = 0; i < args.shape.num_heads; ++i) {
      for (int c = 0; c < args.shape.head_dim; ++c) {
        const float topic = of_query[i / args.shape.GroupSize() * args.shape.head_dim + c];
        inputs.q.push_back(query_scale * (topic + 0.5f * normal(random)));
      }
    }
  }
  return inputs;
}

// A sequence's blocks in memory that is otherwise NaN. Blocks are written up to num_written tokens.
class SparseProblem {
 public:
  explicit SparseProblem(SparseInputs inputs, KvType kv_type = KvType::kF16)
      : inputs_(std::move(inputs)), kv_type_(kv_type) {
    std::vector<size_t> order(NumBlocks());
    std::iota(order.begin(), order.end(), size_t{0});
    PlaceBlocks(order);
  }

  // Puts block i of the sequence at place order[i] of a new memory, and writes all tokens.
  void PlaceBlocks(const std::vector<size_t>& order) {
    memory_ = *AlignedBuffer<std::byte>::Allocate(std::max<size_t>(1, order.size()) * BlockBytes());
    std::memset(memory_.data(), 0xff, memory_.size());
    blocks_.clear();
    for (const size_t place : order) blocks_.push_back(memory_.data() + place * BlockBytes());
    Write(0, inputs_.num_tokens());
  }

  void Write(int64_t first, int64_t count) {
    const KvWriteSequence sequence = {
        .first_row = first, .num_rows = count, .first_position = first, .blocks = blocks_.data()};
    const auto pool = *ThreadPool::Make(1);
    const int64_t tokens = inputs_.num_tokens();
    WriteKv({.table = KernelsFor(BestIsa()), .pool = *pool},
            {.k = {inputs_.k.data(), tokens, inputs_.kv_cols()},
             .v = {inputs_.v.data(), tokens, inputs_.kv_cols()},
             .target = {.sequences = {&sequence, 1},
                        .num_kv_heads = inputs_.shape.num_kv_heads,
                        .head_dim = inputs_.shape.head_dim,
                        .record_offset = kRecordOffset,
                        .head_stride = Record().Bytes(),
                        .kv_type = kv_type_}});
  }

  // Reads the first `count` blocks from another problem's memory from now on.
  void ShareBlocks(SparseProblem& other, size_t count) {
    std::copy_n(other.blocks_.begin(), count, blocks_.begin());
  }

  SparseInputs& inputs() { return inputs_; }
  const SparseInputs& inputs() const { return inputs_; }
  const AttentionShape& shape() const { return inputs_.shape; }
  int64_t num_tokens() const { return inputs_.num_tokens(); }
  const std::byte* const* blocks() const { return blocks_.data(); }
  std::byte* const* mutable_blocks() { return blocks_.data(); }
  size_t NumBlocks() const { return static_cast<size_t>((num_tokens() + 63) / 64); }
  KvRecord Record() const { return {.head_dim = inputs_.shape.head_dim, .type = kv_type_}; }
  size_t BlockBytes() const {
    return kRecordOffset + static_cast<size_t>(inputs_.shape.num_kv_heads) * Record().Bytes() + 64;
  }
  AttentionLayer Layer() const {
    return {.scale = 1.0f / std::sqrt(static_cast<float>(inputs_.shape.head_dim)),
            .record_offset = kRecordOffset,
            .head_stride = Record().Bytes(),
            .kv_type = kv_type_};
  }

  // The reference's arguments for rows [first, first + count), without what the policy says.
  SparseReferenceArgs Reference(const AttentionLayer& layer, int64_t first, int64_t count) const {
    return {.q = inputs_.q.data() + first * inputs_.q_cols(),
            .k = inputs_.k.data(),
            .v = inputs_.v.data(),
            .num_heads = inputs_.shape.num_heads,
            .num_kv_heads = inputs_.shape.num_kv_heads,
            .head_dim = inputs_.shape.head_dim,
            .prompt = num_tokens(),
            .first_position = first,
            .num_queries = count,
            .scale = static_cast<double>(layer.scale),
            .soft_cap = static_cast<double>(layer.soft_cap),
            .sliding = layer.sliding_window};
  }

 private:
  static constexpr size_t kRecordOffset = 128;

  SparseInputs inputs_;
  KvType kv_type_;
  AlignedBuffer<std::byte> memory_;
  std::vector<std::byte*> blocks_;
};

// What a policy says, for the reference.
inline void ApplyPolicy(const SparsePolicy& policy, SparseReferenceArgs& args) {
  const auto blocks = [&](int64_t tokens) {
    return (tokens + policy.block_tokens - 1) / policy.block_tokens;
  };
  args.block = policy.block_tokens;
  args.tile = TilePositions(policy, args.group());
  args.sink = blocks(policy.sink_tokens);
  args.window = blocks(policy.window_tokens);
  args.last_tiles = policy.last_tiles;
  args.is_share = policy.rule == SelectionRule::kShare;
  args.is_none = policy.rule == SelectionRule::kNone;
  args.has_true_energy = policy.energy == BlockEnergy::kTrue;
  args.alpha = static_cast<double>(policy.alpha);
  args.share = policy.share;
  args.min_blocks = policy.min_blocks;
  args.num_far = policy.estimate == BlockEstimate::kFar ? policy.num_estimates - 1 : 0;
}

// A selection with lists of its own.
struct KeptSelection {
  TileSelection about;  // without its lists
  std::vector<float> energies;
  std::vector<int64_t> kept;
  std::vector<int64_t> corrected;

  bool SameAs(const KeptSelection& other) const {
    return about.tile == other.about.tile && about.kv_head == other.about.kv_head &&
           about.is_dense == other.about.is_dense && energies == other.energies &&
           kept == other.kept && corrected == other.corrected;
  }
};

// Keeps all selections, sorted by sequence, tile and KV head.
class SelectionKeeper final : public TileObserver {
 public:
  void OnTile(const TileSelection& selection) override {
    KeptSelection copy = {.about = selection,
                          .energies = {selection.energies.begin(), selection.energies.end()},
                          .kept = {selection.kept.begin(), selection.kept.end()},
                          .corrected = {selection.corrected.begin(), selection.corrected.end()}};
    copy.about.energies = {};
    copy.about.kept = {};
    copy.about.corrected = {};
    const std::lock_guard<std::mutex> lock(mutex_);
    selections_.push_back(std::move(copy));
  }

  std::vector<KeptSelection> Sorted() {
    std::sort(selections_.begin(), selections_.end(),
              [](const KeptSelection& a, const KeptSelection& b) {
                return std::tuple(a.about.sequence, a.about.rows.first_position, a.about.kv_head) <
                       std::tuple(b.about.sequence, b.about.rows.first_position, b.about.kv_head);
              });
    return selections_;
  }

 private:
  std::mutex mutex_;
  std::vector<KeptSelection> selections_;
};

struct SparseRun {
  std::vector<float> out;  // [rows][num_heads * head_dim]
  std::vector<float> lse;  // [rows][num_heads]
  std::vector<BlockCounts> counts;
  std::vector<KeptSelection> selections;
};

// Rows [first, first + count) of a problem.
struct SparseRows {
  int64_t first = 0;
  int64_t count = 0;
  int64_t prompt = 0;
  int layer = 0;
};

inline SparseRun RunSparse(const KernelContext& context, const SparseProblem& problem,
                           const SparsePolicy& policy, const AttentionLayer& layer,
                           const SparseRows& rows) {
  const int64_t cols = problem.inputs().q_cols();
  const AttentionShape& shape = problem.shape();
  SparseRun run;
  run.out.assign(static_cast<size_t>(rows.count * cols), 7.0f);
  run.lse.assign(static_cast<size_t>(rows.count * shape.num_heads), 7.0f);
  run.counts.resize(static_cast<size_t>(shape.num_kv_heads));
  const AttentionSequence sequence = {.first_row = 0,
                                      .num_rows = rows.count,
                                      .first_position = rows.first,
                                      .blocks = problem.blocks()};
  const size_t needed =
      SparsePrefillWorkspaceBytes(shape, policy, {&sequence, 1}, context.pool.num_threads());
  // Poisoned, and one cache line of a known pattern behind.
  const auto workspace = *AlignedBuffer<std::byte>::Allocate(needed + 64);
  std::memset(workspace.data(), 0xff, needed);
  std::memset(workspace.data() + needed, 0x5a, 64);
  SelectionKeeper keeper;
  SparsePrefillAttention(
      context,
      {.attention = {.q = {problem.inputs().q.data() + rows.first * cols, rows.count, cols},
                     .out = {run.out.data(), rows.count, cols},
                     .sequences = {&sequence, 1},
                     .shape = shape,
                     .layer = layer,
                     .workspace = workspace.span().first(needed)},
       .policy = &policy,
       .layer = rows.layer,
       .prompt_tokens = {&rows.prompt, 1},
       .lse = {run.lse.data(), rows.count, shape.num_heads},
       .counts = run.counts,
       .observer = &keeper});
  for (size_t i = 0; i < 64; ++i) CHECK(workspace.data()[needed + i] == std::byte{0x5a});
  run.selections = keeper.Sorted();
  return run;
}

inline std::vector<float> RunDense(const KernelContext& context, const SparseProblem& problem,
                                   const AttentionLayer& layer, const SparseRows& rows) {
  const int64_t cols = problem.inputs().q_cols();
  std::vector<float> out(static_cast<size_t>(rows.count * cols));
  const AttentionSequence sequence = {.first_row = 0,
                                      .num_rows = rows.count,
                                      .first_position = rows.first,
                                      .blocks = problem.blocks()};
  const auto workspace = *AlignedBuffer<std::byte>::Allocate(
      PrefillAttentionWorkspaceBytes(problem.shape(), context.pool.num_threads()));
  PrefillAttention(context, {.q = {problem.inputs().q.data() + rows.first * cols, rows.count, cols},
                             .out = {out.data(), rows.count, cols},
                             .sequences = {&sequence, 1},
                             .shape = problem.shape(),
                             .layer = layer,
                             .workspace = workspace.span()});
  return out;
}

inline bool SameFloats(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace baton
