// Estimates of blocks on f32x16: packing them into strips, and scoring a tile against them.
//
// The logits of a strip are the dense kernel's own, with estimates for keys. Energies: per block
// one chain of sums, slabs outermost, rows ascending.
#pragma once

#include <cstdint>

#include "kernels/attention_segment.inl.h"
#include "kernels/sparse_attention_ops.h"

namespace baton::BATON_ISA {
namespace {

BATON_INLINE const uint16_t* RecordOfBlock(const PackEstimatesTask& task, int lane, int half) {
  const int64_t block = (task.first_block + lane) * task.halves + half;
  return reinterpret_cast<const uint16_t*>(task.blocks[block] + task.record_offset);
}

// Means of K [head_dim], then of V [head_dim].
BATON_INLINE const float* MeansOf(const uint16_t* record, int head_dim) {
  return reinterpret_cast<const float*>(record + int64_t{2} * kBlockTokens * head_dim);
}

BATON_INLINE int FarKeyOf(const uint16_t* record, int head_dim, int index) {
  return reinterpret_cast<const uint8_t*>(MeansOf(record, head_dim) + 2 * head_dim)[index];
}

// 16 components from c on of the mean at `offset` of a lane; with both halves if they share a slab.
BATON_INLINE f32x16 MeanVector(const PackEstimatesTask& task, int lane, int half, int offset) {
  const f32x16 mean = Load(MeansOf(RecordOfBlock(task, lane, half), task.head_dim) + offset);
  if (task.num_far > 0 || task.halves == 1) return mean;
  const f32x16 other = Load(MeansOf(RecordOfBlock(task, lane, 1), task.head_dim) + offset);
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

// Writes the far keys number `index` of one half to a slab of keys.
BATON_INLINE void PackFarKeys(const PackEstimatesTask& task, int half, int index, float* keys) {
  const uint16_t* columns[kStripBlocks];
  for (int lane = task.begin; lane < task.end; ++lane) {
    const uint16_t* record = RecordOfBlock(task, lane, half);
    columns[lane] = record + FarKeyOf(record, task.head_dim, index);
  }
  uint16_t halves[kStripBlocks] = {};
  for (int c = 0; c < task.head_dim; ++c) {
    for (int lane = task.begin; lane < task.end; ++lane)
      halves[lane] = columns[lane][c * kBlockTokens];
    BATON_UNROLL
    for (int v = 0; v < kBlockVectors; ++v) {
      Store(keys + c * kStripBlocks + v * kLanes, LoadHalf(halves + v * kLanes));
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
    const uint16_t* record = RecordOfBlock(task, lane, half);
    const uint16_t* from = record + int64_t{kBlockTokens} * task.head_dim;
    const int token = FarKeyOf(record, task.head_dim, index);
    for (int c = 0; c < task.head_dim; c += kLanes) {
      Store(values + ValueOffset(task.head_dim, c, lane),
            LoadHalf(from + ValueOffset(task.head_dim, c, token)));
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

// A group's logits with 64 keys: the estimates of one slab, or a block's own. Requires:
// 1 <= num_rows <= kGroupRows.
template <typename T>
BATON_INLINE void GroupLogits(int num_rows, const BlockWork<T>& work, int begin, int end) {
  switch (num_rows) {
    case 1:
      return LogitsOfVectors<1>(work, begin, end);
    case 2:
      return LogitsOfVectors<2>(work, begin, end);
    case 3:
      return LogitsOfVectors<3>(work, begin, end);
    case 4:
      return LogitsOfVectors<4>(work, begin, end);
    case 5:
      return LogitsOfVectors<5>(work, begin, end);
    default:
      return LogitsOfVectors<kGroupRows>(work, begin, end);
  }
}

// One strip of a tile's estimates.
struct ScoredStrip {
  int64_t strip;
  const float* packed;
  float* z;          // [num_slabs][rows][64]
  float* energies;   // [64]
  TokenRange votes;  // lanes for which every row votes, if all rows have the same
  bool has_same_votes;
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
  const int64_t first = FirstKey(task, position) >> shift;
  int64_t end = (position >> shift) + 1;
  if (end > estimates.scored_end) end = estimates.scored_end;
  const int64_t lane_0 = strip * kStripBlocks;
  return {.begin = ClampToken(first - lane_0), .end = ClampToken(end - lane_0)};
}

BATON_INLINE ScoredStrip StripAt(const AttentionTask& task, const TaskRows& rows,
                                 const TileEstimates& estimates, int64_t strip) {
  const int64_t local = strip - FirstStrip(estimates);
  const TokenRange first_votes = VotesOf(task, estimates, strip, task.first_position);
  const TokenRange last_votes =
      VotesOf(task, estimates, strip, task.first_position + task.num_positions - 1);
  ScoredStrip result;
  result.strip = strip;
  result.packed =
      estimates.packed + strip * (int64_t{2} * estimates.num_slabs * kStripBlocks * task.head_dim);
  result.z = estimates.z + local * estimates.num_slabs * rows.num_rows * kStripBlocks;
  result.energies = estimates.energies + local * kStripBlocks;
  result.votes = first_votes;
  result.has_same_votes =
      first_votes.begin == last_votes.begin && first_votes.end == last_votes.end;
  return result;
}

BATON_INLINE f32x16 SelectLanes(TokenRange lanes, int vector, f32x16 inside, f32x16 outside) {
  const f32x16 below = SelectBelow(ClampLanes(lanes.end - vector * kLanes), inside, outside);
  return SelectBelow(ClampLanes(lanes.begin - vector * kLanes), outside, below);
}

// Caps the logits of `count` rows from `first` on, and raises tops by those that vote, or, if all
// rows have the same votes, by all. A logit that is not a number raises nothing.
template <bool kHasSameVotes>
[[gnu::noinline]] void RaiseTops(const AttentionTask& task, const TileEstimates& estimates,
                                 const ScoredStrip& strip, int first, int count, float* z,
                                 f32x16 (&tops)[kBlockVectors]) {
  const f32x16 hidden = Set1(kNoMaximum);
  const f32x16 cap = Set1(task.soft_cap_log2);
  for (int r = 0; r < count; ++r) {
    TokenRange votes = {};
    if constexpr (!kHasSameVotes) {
      votes = VotesOf(task, estimates, strip.strip, PositionOf(task, first + r));
    }
    BATON_UNROLL
    for (int v = 0; v < kBlockVectors; ++v) {
      float* at = z + r * kStripBlocks + v * kLanes;
      f32x16 s = Load(at);
      if (task.soft_cap_log2 != 0.0f) {
        s = Mul(Tanh(s), cap);
        Store(at, s);
      }
      if constexpr (!kHasSameVotes) s = SelectLanes(votes, v, s, hidden);
      tops[v] = Max(s, tops[v]);
    }
  }
}

// The logits of all rows with one slab of a strip; returns the largest that votes.
BATON_INLINE float ScoreSlab(const AttentionTask& task, const TaskRows& rows,
                             const TileEstimates& estimates, const ScoredStrip& strip, int slab) {
  BlockWork<float> work = {};
  work.keys = strip.packed + int64_t{slab} * kStripBlocks * task.head_dim;
  work.head_dim = task.head_dim;
  const int64_t lane_0 = strip.strip * kStripBlocks;
  const int begin = ClampToken(estimates.low - lane_0) / kLanes;
  const int end = (ClampToken(estimates.scored_end - lane_0) + kLanes - 1) / kLanes;
  f32x16 tops[kBlockVectors];
  for (f32x16& top : tops) top = Set1(kNoMaximum);
  for (int first = 0, count = 0; first < rows.num_rows; first += count) {
    count = NextGroupRows(rows.num_rows - first);
    work.q = rows.q + int64_t{first} * task.head_dim;
    work.logits = strip.z + (int64_t{slab} * rows.num_rows + first) * kStripBlocks;
    GroupLogits(count, work, begin, end);
    if (strip.has_same_votes) {
      RaiseTops<true>(task, estimates, strip, first, count, work.logits, tops);
    } else {
      RaiseTops<false>(task, estimates, strip, first, count, work.logits, tops);
    }
  }
  if (strip.has_same_votes) {
    BATON_UNROLL
    for (int v = 0; v < kBlockVectors; ++v) {
      tops[v] = SelectLanes(strip.votes, v, tops[v], Set1(kNoMaximum));
    }
  }
  return ReduceMax(Max(Max(tops[0], tops[1]), Max(tops[2], tops[3])));
}

// Sums 2^(z + bias - top) over slabs and voting rows, for the 64 blocks of a strip. If all rows
// have the same votes, these are for all blocks that are scored, and what the other lanes get is
// not asked for.
template <bool kHasSameVotes>
[[gnu::noinline]] void SumEnergies(const AttentionTask& task, const TaskRows& rows,
                                   const TileEstimates& estimates, const ScoredStrip& strip,
                                   float top) {
  f32x16 energies[kBlockVectors];
  BATON_UNROLL
  for (int v = 0; v < kBlockVectors; ++v) energies[v] = Zero();
  const float* z = strip.z;
  for (int slab = 0; slab < estimates.num_slabs; ++slab) {
    const f32x16 offset = Set1(estimates.score_bias[slab] - top);
    for (int r = 0; r < rows.num_rows; ++r, z += kStripBlocks) {
      TokenRange votes = {};
      if constexpr (!kHasSameVotes) {
        votes = VotesOf(task, estimates, strip.strip, PositionOf(task, r));
      }
      BATON_UNROLL
      for (int v = 0; v < kBlockVectors; ++v) {
        // Zero, too, for what is not a number: such a row has no vote.
        f32x16 weight = Max(Exp2(Add(Load(z + v * kLanes), offset)), Zero());
        if constexpr (!kHasSameVotes) weight = SelectLanes(votes, v, weight, Zero());
        energies[v] = Add(energies[v], weight);
      }
    }
  }
  BATON_UNROLL
  for (int v = 0; v < kBlockVectors; ++v) Store(strip.energies + v * kLanes, energies[v]);
}

float ScoreTile(const AttentionTask& task, const TileEstimates& estimates) {
  const TaskRows rows = LayOut(task);
  float top = kNoMaximum;
  for (int64_t s = FirstStrip(estimates); s < EndStrip(estimates); ++s) {
    const ScoredStrip strip = StripAt(task, rows, estimates, s);
    for (int slab = 0; slab < estimates.num_slabs; ++slab) {
      const float largest =
          ScoreSlab(task, rows, estimates, strip, slab) + estimates.score_bias[slab];
      top = largest > top ? largest : top;
    }
  }
  for (int64_t s = FirstStrip(estimates); s < EndStrip(estimates); ++s) {
    const ScoredStrip strip = StripAt(task, rows, estimates, s);
    if (strip.has_same_votes) {
      SumEnergies<true>(task, rows, estimates, strip, top);
    } else {
      SumEnergies<false>(task, rows, estimates, strip, top);
    }
  }
  return top;
}

}  // namespace
}  // namespace baton::BATON_ISA
