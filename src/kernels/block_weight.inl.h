// The true weight of blocks on f32x16: what a selection by estimates can be at best.
//
// Two passes over all blocks that the rows see, as in dense attention without values: the first
// finds each row's maximum m and sum l, the second each block's share of l. A row's shares depend
// on that row and its keys alone.
#pragma once

#include <cstdint>

#include "kernels/attention_segment.inl.h"
#include "kernels/block_score.inl.h"
#include "kernels/sparse_attention_ops.h"

namespace baton::BATON_ISA {
namespace {

// The capped logits of `count` rows from `first` on with one block of 64 tokens, to rows.logits;
// far below all others where a row does not see the token. Returns whether any row sees any.
BATON_INLINE bool VisibleLogits(const AttentionTask& task, const TaskRows& rows, int64_t block,
                                int first, int count) {
  TokenRange visible[kGroupRows];
  FindVisible(task, first, count, block * kBlockTokens, visible);
  bool is_seen = false;
  for (int r = 0; r < count; ++r) is_seen = is_seen || visible[r].begin < visible[r].end;
  if (!is_seen) return false;
  if (task.kv_type == KvType::kQ8) {
    Q8Work work = {};
    work.record = Q8RecordAt(RecordOf(task, block), task.head_dim);
    work.head_dim = task.head_dim;
    work.queries = rows.codes.From(first);
    work.logits = rows.logits;
    WithRows(
        count, [&](auto r) __attribute__((always_inline)) {
          Q8LogitsOfVectors<r>(work, 0, kBlockVectors);
        });
  } else {
    BlockWork<uint16_t> work = {};
    work.keys = reinterpret_cast<const uint16_t*>(RecordOf(task, block));
    work.head_dim = task.head_dim;
    work.q = rows.q + int64_t{first} * task.head_dim;
    work.logits = rows.logits;
    WithRows(
        count, [&](auto r)
                   __attribute__((always_inline)) { LogitsOfVectors<r>(work, 0, kBlockVectors); });
  }
  const f32x16 cap = Set1(task.soft_cap_log2);
  const f32x16 hidden = Set1(kNoMaximum);
  for (int r = 0; r < count; ++r) {
    for (int v = 0; v < kBlockVectors; ++v) {
      float* at = rows.logits + r * kBlockTokens + v * kLanes;
      f32x16 s = Load(at);
      if (task.soft_cap_log2 != 0.0f) s = Mul(Tanh(s), cap);
      Store(at, SelectLanes(visible[r], v, s, hidden));
    }
  }
  return true;
}

// Sum of 2^(s - m) of a row's 64 logits, in 16 lanes.
BATON_INLINE f32x16 WeightsOf(const float* logits, float m) {
  f32x16 weights[kBlockVectors];
  for (int v = 0; v < kBlockVectors; ++v) {
    weights[v] = Exp2(Sub(Load(logits + v * kLanes), Set1(m)));
  }
  return Add(Add(weights[0], weights[1]), Add(weights[2], weights[3]));
}

// Adds 64 logits to (m, l) of a row.
BATON_INLINE void AddToRow(const TaskRows& rows, int row, const float* logits) {
  float* l = rows.l + int64_t{row} * kLanes;
  const float top = ReduceMax(Max(Max(Load(logits), Load(logits + kLanes)),
                                  Max(Load(logits + 2 * kLanes), Load(logits + 3 * kLanes))));
  if (top > rows.m[row]) {
    Store(l, Mul(Load(l), Exp2(Sub(Set1(rows.m[row]), Set1(top)))));
    rows.m[row] = top;
  }
  Store(l, Add(Load(l), WeightsOf(logits, rows.m[row])));
}

// (m, l) of every row over all that it sees.
BATON_INLINE void SumRows(const AttentionTask& task, const TaskRows& rows) {
  for (int r = 0; r < rows.num_rows; ++r) {
    Store(rows.l + r * kLanes, Zero());
    rows.m[r] = kNoMaximum;
  }
  const int64_t end = (task.first_position + task.num_positions - 1) / kBlockTokens + 1;
  for (int64_t block = FirstKey(task, task.first_position) / kBlockTokens; block < end; ++block) {
    for (int first = 0, count = 0; first < rows.num_rows; first += count) {
      count = NextGroupRows(rows.num_rows - first);
      if (!VisibleLogits(task, rows, block, first, count)) continue;
      for (int r = 0; r < count; ++r) AddToRow(rows, first + r, rows.logits + r * kBlockTokens);
    }
  }
  for (int r = 0; r < rows.num_rows; ++r) {
    rows.merged_l[r] = ReduceAdd(Load(rows.l + int64_t{r} * kLanes));
  }
}

// The largest share of any row's weight in one selection block.
BATON_INLINE float LargestShare(const AttentionTask& task, const TaskRows& rows, int64_t block,
                                int halves) {
  float largest = 0.0f;
  for (int first = 0, count = 0; first < rows.num_rows; first += count) {
    count = NextGroupRows(rows.num_rows - first);
    float sums[kGroupRows] = {};
    for (int half = 0; half < halves; ++half) {
      if (!VisibleLogits(task, rows, block * halves + half, first, count)) continue;
      for (int r = 0; r < count; ++r) {
        sums[r] += ReduceAdd(WeightsOf(rows.logits + r * kBlockTokens, rows.m[first + r]));
      }
    }
    for (int r = 0; r < count; ++r) {
      const float share = sums[r] / rows.merged_l[first + r];
      largest = share > largest ? share : largest;
    }
  }
  return largest;
}

void WeighBlocks(const AttentionTask& task, const TileEstimates& estimates) {
  const TaskRows rows = LayOut(task);
  SumRows(task, rows);
  const int64_t lane_0 = FirstStrip(estimates) * kStripBlocks;
  for (int64_t block = estimates.low; block < estimates.scored_end; ++block) {
    estimates.energies[block - lane_0] =
        LargestShare(task, rows, block, estimates.block_tokens / kBlockTokens);
  }
}

}  // namespace
}  // namespace baton::BATON_ISA
