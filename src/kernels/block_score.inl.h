// Estimates of blocks on f32x16: packing them into strips, and scoring a tile against them.
//
// The logits of a strip are the dense kernel's own, with estimates for keys. A row's logits with
// blocks that all rows see whole become weights relative to the row's largest: what the correction
// needs, and, times a factor of the row, what it adds to the blocks' energies. So each exponential
// is taken once. Energies: per block one chain of sums, slabs outermost, rows ascending.
#pragma once

#include <cstdint>

#include "kernels/attention_segment.inl.h"
#include "kernels/sparse_attention_ops.h"

namespace baton::BATON_ISA {
namespace {

// A record, with what its type says of it.
struct EstimatedRecord {
  const std::byte* at;
  KvType type;
  int head_dim;

  // Means of K [head_dim], then of V [head_dim].
  BATON_INLINE const float* means() const {
    if (type == KvType::kQ8) return Q8RecordAt(at, head_dim).means;
    return reinterpret_cast<const float*>(halves() + int64_t{2} * kBlockTokens * head_dim);
  }
  BATON_INLINE int far_key(int index) const {
    return reinterpret_cast<const uint8_t*>(means() + 2 * head_dim)[index];
  }
  BATON_INLINE const uint16_t* halves() const { return reinterpret_cast<const uint16_t*>(at); }
};

BATON_INLINE EstimatedRecord RecordOfBlock(const PackEstimatesTask& task, int lane, int half) {
  const int64_t block = (task.first_block + lane) * task.halves + half;
  return {task.blocks[block] + task.record_offset, task.kv_type, task.head_dim};
}

// 16 components from c on of the mean at `offset` of a lane; with both halves if they share a slab.
BATON_INLINE f32x16 MeanVector(const PackEstimatesTask& task, int lane, int half, int offset) {
  const f32x16 mean = Load(RecordOfBlock(task, lane, half).means() + offset);
  if (task.num_far > 0 || task.halves == 1) return mean;
  const f32x16 other = Load(RecordOfBlock(task, lane, 1).means() + offset);
  return Mul(Add(mean, other), Set1(0.5f));
}

// Writes the means of one half to a slab of keys.
BATON_INLINE void PackKeyMeans(const PackEstimatesTask& task, int half, float* keys) {
  for (int c = 0; c < task.head_dim; c += kLanes) {
    float by_lane[kStripBlocks][kLanes];
    for (int lane = 0; lane < kStripBlocks; ++lane) {
      const bool is_complete = lane >= task.begin && lane < task.end;
      Store(by_lane[lane], is_complete ? MeanVector(task, lane, half, c) : Zero());
    }
    for (int i = 0; i < kLanes; ++i) {
      float* to = keys + (c + i) * kStripBlocks;
      for (int lane = 0; lane < kStripBlocks; ++lane) to[lane] = by_lane[lane][i];
    }
  }
}

// 16 components of a token's key, from component c on.
BATON_INLINE f32x16 LoadKey(const EstimatedRecord& record, int c, int token) {
  if (record.type == KvType::kQ8) {
    return LoadQ8Key(Q8RecordAt(record.at, record.head_dim), c, token);
  }
  uint16_t halves[kLanes];
  for (int i = 0; i < kLanes; ++i) halves[i] = record.halves()[(c + i) * kBlockTokens + token];
  return LoadHalf(halves);
}

// Writes the far keys number `index` of one half to a slab of keys.
BATON_INLINE void PackFarKeys(const PackEstimatesTask& task, int half, int index, float* keys) {
  for (int c = 0; c < task.head_dim; c += kLanes) {
    float by_lane[kStripBlocks][kLanes];
    for (int lane = 0; lane < kStripBlocks; ++lane) {
      f32x16 key = Zero();
      if (lane >= task.begin && lane < task.end) {
        const EstimatedRecord record = RecordOfBlock(task, lane, half);
        key = LoadKey(record, c, record.far_key(index));
      }
      Store(by_lane[lane], key);
    }
    for (int i = 0; i < kLanes; ++i) {
      float* to = keys + (c + i) * kStripBlocks;
      for (int lane = 0; lane < kStripBlocks; ++lane) to[lane] = by_lane[lane][i];
    }
  }
}

// Where component c of a token, or of a lane, lies in the slabs of values.
BATON_INLINE int64_t ValueOffset(int head_dim, int c, int token) {
  const int slab_begin = c / kBlockTokens * kBlockTokens;
  const int columns = MinInt(kBlockTokens, head_dim - slab_begin);
  return int64_t{slab_begin} * kBlockTokens + int64_t{token} * columns + (c - slab_begin);
}

// Writes the means of one half to slabs of values.
BATON_INLINE void PackValueMeans(const PackEstimatesTask& task, int half, float* values) {
  for (int lane = 0; lane < kStripBlocks; ++lane) {
    const bool is_complete = lane >= task.begin && lane < task.end;
    for (int c = 0; c < task.head_dim; c += kLanes) {
      Store(values + ValueOffset(task.head_dim, c, lane),
            is_complete ? MeanVector(task, lane, half, task.head_dim + c) : Zero());
    }
  }
}

// Writes the values of the far keys number `index` of one half to slabs of values.
BATON_INLINE void PackFarValues(const PackEstimatesTask& task, int half, int index, float* values) {
  for (int lane = 0; lane < kStripBlocks; ++lane) {
    if (lane < task.begin || lane >= task.end) {
      for (int c = 0; c < task.head_dim; c += kLanes) {
        Store(values + ValueOffset(task.head_dim, c, lane), Zero());
      }
      continue;
    }
    const EstimatedRecord record = RecordOfBlock(task, lane, half);
    const uint16_t* from = record.halves() + int64_t{kBlockTokens} * task.head_dim;
    const int token = record.far_key(index);
    for (int c = 0; c < task.head_dim; c += kLanes) {
      Store(values + ValueOffset(task.head_dim, c, lane),
            record.type == KvType::kQ8
                ? LoadQ8Value(Q8RecordAt(record.at, task.head_dim), task.head_dim, c, token)
                : LoadHalf(from + ValueOffset(task.head_dim, c, token)));
    }
  }
}

// Turns the means in slab `rest` into means without the far keys in the slabs behind it: the sum of
// the block, less the far keys in their order, divided by how many are left.
BATON_INLINE void TakeOutFarKeys(int head_dim, int num_far, float* rest) {
  const int64_t size = int64_t{kStripBlocks} * head_dim;
  const f32x16 count = Set1(static_cast<float>(kBlockTokens));
  const f32x16 left = Set1(static_cast<float>(kBlockTokens - num_far));
  for (int64_t i = 0; i < size; i += kLanes) {
    f32x16 sum = Mul(Load(rest + i), count);
    for (int far = 1; far <= num_far; ++far) sum = Sub(sum, Load(rest + far * size + i));
    Store(rest + i, Div(sum, left));
  }
}

void PackEstimates(const PackEstimatesTask& task) {
  const int64_t slab = int64_t{kStripBlocks} * task.head_dim;
  const int per_half = task.num_far + 1;
  const int halves = task.num_far > 0 ? task.halves : 1;
  for (int half = 0; half < halves; ++half) {
    float* keys = task.packed + half * per_half * slab;
    float* values = task.packed + (halves + half) * per_half * slab;
    PackKeyMeans(task, half, keys);
    PackValueMeans(task, half, values);
    for (int far = 0; far < task.num_far; ++far) {
      PackFarKeys(task, half, far, keys + (far + 1) * slab);
      PackFarValues(task, half, far, values + (far + 1) * slab);
    }
    if (task.num_far == 0) continue;
    TakeOutFarKeys(task.head_dim, task.num_far, keys);
    TakeOutFarKeys(task.head_dim, task.num_far, values);
  }
}

// logits[r][v] = q[r] . keys[16 lanes of v], for V vectors of keys and half of the next.
template <int R, int V>
[[gnu::noinline]] void LogitsAndHalf(const float* q, const float* keys, int head_dim,
                                     float* logits) {
  // An array of none is no array.
  f32x16 sum[R][V == 0 ? 1 : V];
  f32x8 half_sum[R];
  BATON_UNROLL
  for (int r = 0; r < R; ++r) {
    BATON_UNROLL
    for (int v = 0; v < V; ++v) sum[r][v] = Zero();
    half_sum[r] = Zero8();
  }
  for (int first = 0; first < head_dim; first += kStepsAtOnce) {
    BATON_UNROLL
    for (int c = first; c < first + kStepsAtOnce; ++c) {
      const float* column = keys + c * kStripBlocks;
      f32x16 key[V == 0 ? 1 : V];
      BATON_UNROLL
      for (int v = 0; v < V; ++v) key[v] = Load(column + v * kLanes);
      const f32x8 half_key = Load8(column + V * kLanes);
      BATON_UNROLL
      for (int r = 0; r < R; ++r) {
        const f32x16 x = Set1(q[r * head_dim + c]);
        BATON_UNROLL
        for (int v = 0; v < V; ++v) sum[r][v] = Fma(x, key[v], sum[r][v]);
        half_sum[r] = Fma8(x, half_key, half_sum[r]);
      }
    }
  }
  BATON_UNROLL
  for (int r = 0; r < R; ++r) {
    BATON_UNROLL
    for (int v = 0; v < V; ++v) Store(logits + r * kStripBlocks + v * kLanes, sum[r][v]);
    Store8(logits + r * kStripBlocks + V * kLanes, half_sum[r]);
  }
}

// Logits of 16-lane vectors of one slab from `begin` on, up to the half vector `end`.
template <int R>
[[gnu::noinline]] void LogitsOfHalves(const BlockWork<float>& work, int begin, int end) {
  const int whole_end = end / 2;
  if (end % 2 == 0) return LogitsOfVectors<R>(work, begin, whole_end);
  if constexpr (TileVectors(R) == kBlockVectors) {
    // Vectors together cost less than one by one.
    constexpr decltype(&LogitsAndHalf<R, 0>) kLogits[] = {LogitsAndHalf<R, 0>, LogitsAndHalf<R, 1>,
                                                          LogitsAndHalf<R, 2>, LogitsAndHalf<R, 3>};
    kLogits[whole_end - begin](work.q, work.keys + begin * kLanes, work.head_dim,
                               work.logits + begin * kLanes);
  } else {
    LogitsOfVectors<R>(work, begin, whole_end);
    LogitsAndHalf<R, 0>(work.q, work.keys + whole_end * kLanes, work.head_dim,
                        work.logits + whole_end * kLanes);
  }
}

// A group's logits with the estimates of one slab. Requires: 1 <= num_rows <= kGroupRows.
BATON_INLINE void SlabLogits(int num_rows, const BlockWork<float>& work, int begin, int end) {
  WithRows(
      num_rows, [&](auto r)
                    __attribute__((always_inline)) { LogitsOfHalves<r>(work, begin, end); });
}

// Lanes of a strip: [begin, end) of 64.
BATON_INLINE TokenRange LanesOf(int64_t strip, int64_t begin, int64_t end) {
  const int64_t lane_0 = strip * kStripBlocks;
  return {.begin = ClampToken(begin - lane_0), .end = ClampToken(end - lane_0)};
}

// One strip of a tile's estimates.
struct ScoredStrip {
  int64_t strip;
  const float* packed;
  float* z;             // [num_slabs][rows][64]
  float* energies;      // [64]
  TokenRange scored;    // lanes
  TokenRange clear;     // of these, blocks that every row sees whole; may be empty
  TokenRange vectors;   // of 16 lanes that hold scored ones
  int end_half;         // of 8 lanes
  bool has_same_votes;  // every row votes for the same blocks of the strip
};

BATON_INLINE int BlockShift(const TileEstimates& estimates) {
  return estimates.block_tokens == kBlockTokens ? 6 : 7;
}

BATON_INLINE int64_t FirstStrip(const TileEstimates& estimates) {
  return estimates.low / kStripBlocks;
}
BATON_INLINE int64_t EndStrip(const TileEstimates& estimates) {
  return (estimates.scored_end + kStripBlocks - 1) / kStripBlocks;
}

// The lanes of a strip for which a row at `position` votes: it sees a token of the block.
BATON_INLINE TokenRange VotesOf(const AttentionTask& task, const TileEstimates& estimates,
                                int64_t strip, int64_t position) {
  const int shift = BlockShift(estimates);
  const int64_t end = (position >> shift) + 1;
  return LanesOf(strip, FirstKey(task, position) >> shift, MinInt64(end, estimates.scored_end));
}

BATON_INLINE ScoredStrip StripAt(const AttentionTask& task, const TaskRows& rows,
                                 const TileEstimates& estimates, int64_t strip) {
  const int64_t local = strip - FirstStrip(estimates);
  const int shift = BlockShift(estimates);
  const int64_t last_position = task.first_position + task.num_positions - 1;
  const int64_t edge = (FirstKey(task, last_position) + estimates.block_tokens - 1) >> shift;
  const int64_t first = task.first_position >> shift;
  ScoredStrip result;
  result.strip = strip;
  result.packed =
      estimates.packed + strip * (int64_t{2} * estimates.num_slabs * kStripBlocks * task.head_dim);
  result.z = estimates.z + local * estimates.num_slabs * rows.num_rows * kStripBlocks;
  result.energies = estimates.energies + local * kStripBlocks;
  result.scored = LanesOf(strip, estimates.low, estimates.scored_end);
  result.clear = LanesOf(strip, edge > estimates.low ? edge : estimates.low,
                         MinInt64(first, estimates.scored_end));
  if (result.clear.begin > result.clear.end) result.clear.begin = result.clear.end;
  result.vectors = {.begin = result.scored.begin / kLanes,
                    .end = (result.scored.end + kLanes - 1) / kLanes};
  result.end_half = (result.scored.end + kLanes / 2 - 1) / (kLanes / 2);
  const TokenRange first_votes = VotesOf(task, estimates, strip, task.first_position);
  const TokenRange last_votes = VotesOf(task, estimates, strip, last_position);
  result.has_same_votes =
      first_votes.begin == last_votes.begin && first_votes.end == last_votes.end;
  return result;
}

BATON_INLINE bool HasUnclear(const ScoredStrip& strip) {
  return strip.clear.begin > strip.scored.begin || strip.clear.end < strip.scored.end;
}

BATON_INLINE f32x16 SelectLanes(TokenRange lanes, int vector, f32x16 inside, f32x16 outside) {
  const f32x16 below = SelectBelow(ClampLanes(lanes.end - vector * kLanes), inside, outside);
  return SelectBelow(ClampLanes(lanes.begin - vector * kLanes), outside, below);
}

// Caps the logits of `count` rows from `first` on with one slab, and raises the rows' tops, [16]
// lanes each, by those in the first V vectors, whose biases are -infinity but for clear blocks. A
// logit that is not a number raises nothing.
template <int V>
[[gnu::noinline]] void RaiseTops(const AttentionTask& task, const TaskRows& rows,
                                 const float* lane_biases, int first, int count, float* z) {
  f32x16 biases[V];
  BATON_UNROLL
  for (int v = 0; v < V; ++v) biases[v] = Load(lane_biases + v * kLanes);
  if (task.soft_cap_log2 != 0.0f) {
    const f32x16 cap = Set1(task.soft_cap_log2);
    for (int i = 0; i < count * kStripBlocks; i += kLanes) {
      Store(z + i, Mul(Tanh(Load(z + i)), cap));
    }
  }
  float* tops = rows.l + int64_t{first} * kLanes;
  for (int r = 0; r < count; ++r, z += kStripBlocks, tops += kLanes) {
    f32x16 top = Load(tops);
    BATON_UNROLL
    for (int v = 0; v < V; ++v) {
      top = Max(Add(Load(z + v * kLanes), biases[v]), top);
    }
    Store(tops, top);
  }
}

// The logits of all rows with one slab of a strip.
BATON_INLINE void ScoreSlab(const AttentionTask& task, const TaskRows& rows,
                            const TileEstimates& estimates, const ScoredStrip& strip, int slab) {
  BlockWork<float> work = {};
  work.keys = strip.packed + int64_t{slab} * kStripBlocks * task.head_dim;
  work.head_dim = task.head_dim;
  float biases[kStripBlocks];
  for (int v = 0; v < kBlockVectors; ++v) {
    Store(biases + v * kLanes,
          SelectLanes(strip.clear, v, Set1(estimates.score_bias[slab]), Set1(-__builtin_inff())));
  }
  for (int first = 0, count = 0; first < rows.num_rows; first += count) {
    count = NextGroupRows(rows.num_rows - first);
    work.q = rows.q + int64_t{first} * task.head_dim;
    work.logits = strip.z + (int64_t{slab} * rows.num_rows + first) * kStripBlocks;
    SlabLogits(count, work, strip.vectors.begin, strip.end_half);
    WithVectors(
        strip.vectors.end, [&](auto v) __attribute__((always_inline)) {
          RaiseTops<v>(task, rows, biases, first, count, work.logits);
        });
  }
}

// The logits with blocks that some row does not see whole, for the vectors that hold such: calls
// hear(vector, z, bias), slabs outermost, rows ascending. A z is -infinity where the row has no
// vote. Where all rows have the same votes, lanes of other blocks hold anything.
template <typename Hear>
BATON_INLINE void VisitUnclear(const AttentionTask& task, const TaskRows& rows,
                               const TileEstimates& estimates, const ScoredStrip& strip,
                               const Hear& hear) {
  for (int v = strip.vectors.begin; v < strip.vectors.end; ++v) {
    if (MaxInt(v * kLanes, strip.scored.begin) >= strip.clear.begin &&
        MinInt((v + 1) * kLanes, strip.scored.end) <= strip.clear.end)
      continue;
    const float* z = strip.z + v * kLanes;
    for (int slab = 0; slab < estimates.num_slabs; ++slab) {
      const float bias = estimates.score_bias[slab];
      for (int r = 0; r < rows.num_rows; ++r, z += kStripBlocks) {
        if (strip.has_same_votes) {
          hear(v, Load(z), bias);
        } else {
          const TokenRange votes = VotesOf(task, estimates, strip.strip, PositionOf(task, r));
          hear(v, SelectLanes(votes, v, Load(z), Set1(-__builtin_inff())), bias);
        }
      }
    }
  }
}

// The largest z + bias with which a row votes for a block that is not clear.
[[gnu::noinline]] float UnclearTop(const AttentionTask& task, const TaskRows& rows,
                                   const TileEstimates& estimates, const ScoredStrip& strip) {
  const f32x16 none = Set1(kNoMaximum);
  f32x16 tops[kBlockVectors];
  for (f32x16& top : tops) top = none;
  VisitUnclear(task, rows, estimates, strip,
               [&](int v, f32x16 z, float bias) { tops[v] = Max(Add(z, Set1(bias)), tops[v]); });
  f32x16 top = none;
  for (int v = 0; v < kBlockVectors; ++v) {
    const f32x16 scored = SelectLanes(strip.scored, v, tops[v], none);
    top = Max(SelectLanes(strip.clear, v, none, scored), top);
  }
  return MaxLane(top);
}

// Energies of blocks that are not clear: sums of 2^(z + (bias - top)) of the votes. Other lanes
// hold anything.
[[gnu::noinline]] void SumUnclear(const AttentionTask& task, const TaskRows& rows,
                                  const TileEstimates& estimates, const ScoredStrip& strip,
                                  float top) {
  f32x16 energies[kBlockVectors];
  for (f32x16& e : energies) e = Zero();
  VisitUnclear(task, rows, estimates, strip, [&](int v, f32x16 z, float bias) {
    // Zero, too, for what is not a number: such a row has no vote.
    energies[v] = Add(energies[v], Max(Exp2(Add(z, Set1(bias - top))), Zero()));
  });
  for (int v = 0; v < kBlockVectors; ++v) Store(strip.energies + v * kLanes, energies[v]);
}

// Turns the logits of clear blocks into 2^(z + (bias - the row's top)), which the correction takes
// for weights, and adds these times the row's factor to the blocks' energies. They lie
// in the first V vectors.
template <int V>
[[gnu::noinline]] void WeighClear(const TaskRows& rows, const TileEstimates& estimates,
                                  const ScoredStrip& strip, const float* factors) {
  f32x16 energies[V];
  BATON_UNROLL
  for (int v = 0; v < V; ++v) energies[v] = Zero();
  float* z = strip.z;
  for (int slab = 0; slab < estimates.num_slabs; ++slab) {
    const float bias = estimates.score_bias[slab];
    for (int r = 0; r < rows.num_rows; ++r, z += kStripBlocks) {
      const f32x16 offset = Set1(bias - estimates.row_tops[r]);
      const f32x16 factor = Set1(factors[r]);
      BATON_UNROLL
      for (int v = 0; v < V; ++v) {
        const f32x16 weight = Exp2(Add(Load(z + v * kLanes), offset));
        Store(z + v * kLanes, weight);
        // Nothing for what is not a number: such a row has no vote.
        energies[v] = Fma(Max(weight, Zero()), factor, energies[v]);
      }
    }
  }
  BATON_UNROLL
  for (int v = 0; v < V; ++v) {
    float* at = strip.energies + v * kLanes;
    Store(at, SelectLanes(strip.clear, v, energies[v], Load(at)));
  }
}

// Takes the largest of each row's 16 lanes, and returns the largest of all rows.
BATON_INLINE float CloseTops(const TaskRows& rows, float* row_tops) {
  float top = kNoMaximum;
  for (int r = 0; r < rows.num_rows; ++r) {
    row_tops[r] = MaxLane(Load(rows.l + int64_t{r} * kLanes));
    top = row_tops[r] > top ? row_tops[r] : top;
  }
  return top;
}

float ScoreTile(const AttentionTask& task, const TileEstimates& estimates) {
  const TaskRows rows = LayOut(task);
  for (int r = 0; r < rows.num_rows; ++r) Store(rows.l + r * kLanes, Set1(kNoMaximum));
  float unclear_top = kNoMaximum;
  for (int64_t s = FirstStrip(estimates); s < EndStrip(estimates); ++s) {
    const ScoredStrip strip = StripAt(task, rows, estimates, s);
    for (int slab = 0; slab < estimates.num_slabs; ++slab) {
      ScoreSlab(task, rows, estimates, strip, slab);
    }
    if (!HasUnclear(strip)) continue;
    const float of_strip = UnclearTop(task, rows, estimates, strip);
    unclear_top = of_strip > unclear_top ? of_strip : unclear_top;
  }
  const float clear_top = CloseTops(rows, estimates.row_tops);
  const float top = clear_top > unclear_top ? clear_top : unclear_top;
  // Not wanted before the rows attend.
  float* factors = rows.m;
  for (int r = 0; r < rows.num_rows; r += kLanes) {
    Store(factors + r, Exp2(Sub(Load(estimates.row_tops + r), Set1(top))));
  }
  for (int64_t s = FirstStrip(estimates); s < EndStrip(estimates); ++s) {
    const ScoredStrip strip = StripAt(task, rows, estimates, s);
    if (HasUnclear(strip)) SumUnclear(task, rows, estimates, strip, top);
    if (strip.clear.begin == strip.clear.end) continue;
    WithVectors(
        strip.vectors.end, [&](auto v) __attribute__((always_inline)) {
          WeighClear<v>(rows, estimates, strip, factors);
        });
  }
  return top;
}

}  // namespace
}  // namespace baton::BATON_ISA
