// Sparse attention, compiled once per instruction set: kept blocks, corrected blocks, the end.
#include <cstdint>

#include "kernels/attention_segment.inl.h"
#include "kernels/block_score.inl.h"
#include "kernels/block_weight.inl.h"
#include "kernels/sparse_attention_ops.h"

namespace baton::BATON_ISA {
namespace {

// Whether each row has seen a key: [num_rows], behind the arrays of LayOut.
BATON_INLINE uint8_t* SeenOf(const TaskRows& rows) {
  return reinterpret_cast<uint8_t*>(rows.merged_l + (rows.num_rows + kLanes - 1) / kLanes * kLanes);
}

// Merges (o, m, l) of a row into its merged ones.
BATON_INLINE void MergeRowOf(const AttentionTask& task, const TaskRows& rows, int row,
                             const float* o) {
  uint8_t* seen = SeenOf(rows);
  MergeRow(seen[row] == 0, task.head_dim, o, rows.m[row],
           ReduceAdd(Load(rows.l + int64_t{row} * kLanes)),
           rows.merged_o + int64_t{row} * task.head_dim, rows.merged_m + row, rows.merged_l + row);
  seen[row] = 1;
}

// Kept blocks of one segment.
struct KeptBlocks {
  const int32_t* blocks;
  int64_t count;
  int block_tokens;
  int32_t next;  // kept block after them, or the last one again
};

// Whether a row at `position` sees a key of one of the blocks. The last one that begins early
// enough tells: if its end is out of sight, so is all before it.
BATON_INLINE bool SeesKept(const AttentionTask& task, const KeptBlocks& kept, int64_t position) {
  int64_t i = kept.count - 1;
  while (i >= 0 && int64_t{kept.blocks[i]} * kept.block_tokens > position) --i;
  return i >= 0 && (int64_t{kept.blocks[i]} + 1) * kept.block_tokens > FirstKey(task, position);
}

BATON_INLINE void AttendKeptOfSegment(const AttentionTask& task, const TaskRows& rows,
                                      const KeptBlocks& kept) {
  const int halves = kept.block_tokens / kBlockTokens;
  const int64_t end = (task.first_position + task.num_positions - 1) / kBlockTokens + 1;
  const auto block_at = [&](int64_t i) {
    return int64_t{kept.blocks[i / halves]} * halves + i % halves;
  };
  int64_t num_blocks = kept.count * halves;
  while (num_blocks > 0 && block_at(num_blocks - 1) >= end) --num_blocks;
  for (int64_t i = 0; i < num_blocks; ++i) {
    const int64_t next = i / halves + 1 < kept.count ? kept.blocks[i / halves + 1] : kept.next;
    AttendOneBlock(task, rows, block_at(i), next * halves,
                   {.is_first = i == 0, .is_last = i + 1 == num_blocks},
                   [&](int first, int count, const float* o) {
                     for (int r = first; r < first + count; ++r, o += task.head_dim) {
                       if (SeesKept(task, kept, PositionOf(task, r))) MergeRowOf(task, rows, r, o);
                     }
                   });
  }
}

void PrepareTile(const AttentionTask& task) {
  const TaskRows rows = LayOut(task);
  ScaleQueries(task, rows);
  uint8_t* seen = SeenOf(rows);
  for (int r = 0; r < rows.num_rows; ++r) seen[r] = 0;
}

void AttendKept(const AttentionTask& task, const int32_t* kept, int64_t num_kept,
                int block_tokens) {
  const TaskRows rows = LayOut(task);
  const int blocks_of_segment = kSegmentTokens / block_tokens;
  for (int64_t begin = 0; begin < num_kept;) {
    const int64_t segment = kept[begin] / blocks_of_segment;
    int64_t end = begin + 1;
    while (end < num_kept && kept[end] / blocks_of_segment == segment) ++end;
    AttendKeptOfSegment(task, rows,
                        {.blocks = kept + begin,
                         .count = end - begin,
                         .block_tokens = block_tokens,
                         .next = kept[end < num_kept ? end : end - 1]});
    begin = end;
  }
}

// o[r][16 lanes of v] += weights[r][t] * values[t] for the listed tokens, in the list's order.
template <int R, int V>
[[gnu::noinline]] void AddListedValues(const float* weights, const float* values, int columns,
                                       const int32_t* tokens, int count, float* o, int o_stride) {
  f32x16 sum[R][V];
  BATON_UNROLL
  for (int r = 0; r < R; ++r) {
    BATON_UNROLL
    for (int v = 0; v < V; ++v) sum[r][v] = Load(o + r * o_stride + v * kLanes);
  }
  const auto add = [&](int t) __attribute__((always_inline)) {
    f32x16 value[V];
    BATON_UNROLL
    for (int v = 0; v < V; ++v) value[v] = Load(values + t * columns + v * kLanes);
    BATON_UNROLL
    for (int r = 0; r < R; ++r) {
      const f32x16 x = Set1(weights[r * kStripBlocks + t]);
      BATON_UNROLL
      for (int v = 0; v < V; ++v) sum[r][v] = Fma(x, value[v], sum[r][v]);
    }
  };
  int i = 0;
  for (; i + kStepsAtOnce <= count; i += kStepsAtOnce) {
    BATON_UNROLL
    for (int n = 0; n < kStepsAtOnce; ++n) add(tokens[i + n]);
  }
  for (; i < count; ++i) add(tokens[i]);
  BATON_UNROLL
  for (int r = 0; r < R; ++r) {
    BATON_UNROLL
    for (int v = 0; v < V; ++v) Store(o + r * o_stride + v * kLanes, sum[r][v]);
  }
}

// The corrected blocks of one strip, and one of its slabs.
struct CorrectedSlab {
  const int32_t* lanes;  // [count], ascending
  int count;
  const float* bias;  // [64]: of the slab where a block is corrected, else -infinity
  const float* values;
  float* z;  // [rows][64]
};

// Adds a slab's estimates to a group of R rows from `first` on.
template <int R>
[[gnu::noinline]] void CorrectGroup(const AttentionTask& task, const TaskRows& rows,
                                    const CorrectedSlab& slab, int first) {
  constexpr int kVectors = TileVectors(R);
  float* weights = slab.z + int64_t{first} * kStripBlocks;
  float* o = rows.merged_o + int64_t{first} * task.head_dim;
  f32x16 bias[kBlockVectors];
  BATON_UNROLL
  for (int v = 0; v < kBlockVectors; ++v) bias[v] = Load(slab.bias + v * kLanes);
  for (int r = 0; r < R; ++r) {
    float* z = weights + r * kStripBlocks;
    f32x16 s[kBlockVectors];
    BATON_UNROLL
    for (int v = 0; v < kBlockVectors; ++v) {
      const f32x16 biased = Add(Load(z + v * kLanes), bias[v]);
      s[v] = SelectGreater(bias[v], Set1(kNoMaximum), biased, bias[v]);
    }
    StoreWeights(s, z, task.head_dim,
                 {.o = o + r * task.head_dim,
                  .m = rows.merged_m + first + r,
                  .l = rows.l + int64_t{first + r} * kLanes});
  }
  const float* values = slab.values;
  for (int c = 0; c < task.head_dim; c += kStripBlocks) {
    const int columns = MinInt(kStripBlocks, task.head_dim - c);
    int column = 0;
    for (; column + kVectors * kLanes <= columns; column += kVectors * kLanes) {
      AddListedValues<R, kVectors>(weights, values + column, columns, slab.lanes, slab.count,
                                   o + c + column, task.head_dim);
    }
    for (; column < columns; column += kLanes) {
      AddListedValues<R, 1>(weights, values + column, columns, slab.lanes, slab.count,
                            o + c + column, task.head_dim);
    }
    values += columns * kStripBlocks;
  }
}

BATON_INLINE void CorrectRows(const AttentionTask& task, const TaskRows& rows,
                              const CorrectedSlab& slab) {
  for (int first = 0, count = 0; first < rows.num_rows; first += count) {
    count = NextGroupRows(rows.num_rows - first);
    switch (count) {
      case 1:
        CorrectGroup<1>(task, rows, slab, first);
        break;
      case 2:
        CorrectGroup<2>(task, rows, slab, first);
        break;
      case 3:
        CorrectGroup<3>(task, rows, slab, first);
        break;
      case 4:
        CorrectGroup<4>(task, rows, slab, first);
        break;
      case 5:
        CorrectGroup<5>(task, rows, slab, first);
        break;
      default:
        CorrectGroup<kGroupRows>(task, rows, slab, first);
        break;
    }
  }
}

// Makes the merged (o, m) of each row its running ones, with the merged l in lane 0 of l.
BATON_INLINE void ContinueRows(const AttentionTask& task, const TaskRows& rows) {
  uint8_t* seen = SeenOf(rows);
  for (int r = 0; r < rows.num_rows; ++r) {
    if (seen[r] == 0) {
      float* o = rows.merged_o + int64_t{r} * task.head_dim;
      for (int c = 0; c < task.head_dim; c += kLanes) Store(o + c, Zero());
      rows.merged_m[r] = kNoMaximum;
      rows.merged_l[r] = 0.0f;
      seen[r] = 1;
    }
    Store(rows.l + r * kLanes, SelectBelow(1, Set1(rows.merged_l[r]), Zero()));
  }
}

// The corrected blocks follow the kept ones in the same sums.
void CorrectDropped(const AttentionTask& task, const TileEstimates& estimates,
                    const int32_t* corrected, int64_t num_corrected) {
  const TaskRows rows = LayOut(task);
  ContinueRows(task, rows);
  const int64_t slab_floats = int64_t{kStripBlocks} * task.head_dim;
  for (int64_t begin = 0; begin < num_corrected;) {
    const ScoredStrip strip =
        StripAt(task, rows, estimates, int64_t{corrected[begin]} / kStripBlocks);
    int32_t lanes[kStripBlocks];
    int count = 0;
    for (; begin < num_corrected && corrected[begin] / kStripBlocks == strip.strip; ++begin) {
      lanes[count++] = corrected[begin] % kStripBlocks;
    }
    for (int i = 0; i < estimates.num_slabs; ++i) {
      float bias[kStripBlocks];
      for (float& x : bias) x = -__builtin_inff();
      for (int n = 0; n < count; ++n) bias[lanes[n]] = estimates.correct_bias[i];
      CorrectRows(task, rows,
                  {.lanes = lanes,
                   .count = count,
                   .bias = bias,
                   .values = strip.packed + (estimates.num_slabs + i) * slab_floats,
                   .z = strip.z + int64_t{i} * rows.num_rows * kStripBlocks});
    }
  }
  for (int r = 0; r < rows.num_rows; ++r) {
    rows.merged_l[r] = ReduceAdd(Load(rows.l + r * kLanes));
  }
}

void FinishTile(const AttentionTask& task, float* row_m, float* row_l) {
  const TaskRows rows = LayOut(task);
  const uint8_t* seen = SeenOf(rows);
  for (int r = 0; r < rows.num_rows; ++r) {
    float* o = rows.merged_o + int64_t{r} * task.head_dim;
    if (seen[r] == 0) {
      for (int c = 0; c < task.head_dim; c += kLanes) Store(o + c, Zero());
      FinishRow(task, r, o, 1.0f);
    } else {
      FinishRow(task, r, o, rows.merged_l[r]);
    }
    if (row_m == nullptr) continue;
    row_m[r] = seen[r] == 0 ? 0.0f : rows.merged_m[r];
    row_l[r] = seen[r] == 0 ? 0.0f : rows.merged_l[r];
  }
}

}  // namespace

extern const SparseAttentionOps kSparseAttentionOps = {.pack = PackEstimates,
                                                       .prepare = PrepareTile,
                                                       .score = ScoreTile,
                                                       .weigh = WeighBlocks,
                                                       .attend = AttendKept,
                                                       .correct = CorrectDropped,
                                                       .finish = FinishTile};

}  // namespace baton::BATON_ISA
