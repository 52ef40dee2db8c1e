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
  return rows.end;
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
    const int64_t next = i + 1 < num_blocks ? block_at(i + 1) : int64_t{kept.next} * halves;
    AttendOneBlock(task, rows, block_at(i), next,
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

// Sums of a group of rows over listed estimates: from zero or from o on, to o or to the merged
// sums.
struct ListedSums {
  float* o;       // [R] rows
  float* merged;  // [R] rows: merged = merged * old_factors[r] + sum * new_factors[r]
  int stride;     // of rows in both
  bool is_first;
  bool is_last;
  bool keeps_old;            // all old_factors are 1
  const float* old_factors;  // [R]
  const float* new_factors;
};

// Merges 16 lanes of v of the sums, from `column` on.
template <int R, int V>
BATON_INLINE void MergeListed(const ListedSums& sums, const f32x16 (&sum)[R][V], int column) {
  // Copies: of what a reference leads to, the compiler would take that each store may change it.
  float* const merged = sums.merged + column;
  const int64_t stride = sums.stride;
  const float* const old_factors = sums.old_factors;
  const float* const new_factors = sums.new_factors;
  const bool keeps_old = sums.keeps_old;
  BATON_UNROLL
  for (int r = 0; r < R; ++r) {
    const f32x16 new_factor = Set1(new_factors[r]);
    BATON_UNROLL
    for (int v = 0; v < V; ++v) {
      float* at = merged + r * stride + v * kLanes;
      f32x16 old = Load(at);
      if (!keeps_old) old = Mul(old, Set1(old_factors[r]));
      Store(at, Fma(sum[r][v], new_factor, old));
    }
  }
}

// Adds weights[r][t] * values[t] for the listed tokens, in the list's order, to 16 lanes of v.
template <int R, int V>
[[gnu::noinline]] void AddListedValues(const float* weights, const float* values, int columns,
                                       const int32_t* tokens, int count, const ListedSums& sums,
                                       int column) {
  float* const o = sums.o + column;
  const int64_t stride = sums.stride;
  f32x16 sum[R][V];
  if (sums.is_first) {
    BATON_UNROLL
    for (int r = 0; r < R; ++r) {
      BATON_UNROLL
      for (int v = 0; v < V; ++v) sum[r][v] = Zero();
    }
  } else {
    BATON_UNROLL
    for (int r = 0; r < R; ++r) {
      BATON_UNROLL
      for (int v = 0; v < V; ++v) {
        sum[r][v] = Load(o + r * stride + v * kLanes);
      }
    }
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
  if (!sums.is_last) {
    BATON_UNROLL
    for (int r = 0; r < R; ++r) {
      BATON_UNROLL
      for (int v = 0; v < V; ++v) {
        Store(o + r * stride + v * kLanes, sum[r][v]);
      }
    }
    return;
  }
  MergeListed(sums, sum, column);
}

// The corrected blocks of one strip, and one of its slabs.
struct CorrectedSlab {
  const int32_t* lanes;  // [count], ascending
  int count;
  const float* listed;  // [64] 1 where a block is corrected, else 0
  const float* values;
  const float* weights;  // [rows][64]
  bool is_first;
  bool is_last;
};

// Adds the listed lanes of rows' weights to their l.
template <int R>
BATON_INLINE void AddListedWeights(const CorrectedSlab& slab, const float* weights, float* l) {
  const bool is_first = slab.is_first;
  f32x16 listed[kBlockVectors];
  BATON_UNROLL
  for (int v = 0; v < kBlockVectors; ++v) listed[v] = Load(slab.listed + v * kLanes);
  for (int r = 0; r < R; ++r, weights += kStripBlocks, l += kLanes) {
    f32x16 p[kBlockVectors];
    BATON_UNROLL
    for (int v = 0; v < kBlockVectors; ++v) {
      p[v] = SelectGreater(listed[v], Zero(), Load(weights + v * kLanes), Zero());
    }
    const f32x16 sum = Add(Add(p[0], p[1]), Add(p[2], p[3]));
    Store(l, is_first ? sum : Add(Load(l), sum));
  }
}

// What the merge multiplies by, per row.
struct MergeFactors {
  const float* of_old;  // [rows]
  const float* of_new;
};

// Adds a slab's estimates to a group of R rows from `first` on.
template <int R>
[[gnu::noinline]] void CorrectGroup(const AttentionTask& task, const TaskRows& rows,
                                    const CorrectedSlab& slab, const MergeFactors& factors,
                                    int first) {
  constexpr int kVectors = TileVectors(R);
  bool keeps_old = true;
  for (int r = first; r < first + R; ++r) keeps_old = keeps_old && factors.of_old[r] == 1.0f;
  const float* weights = slab.weights + int64_t{first} * kStripBlocks;
  AddListedWeights<R>(slab, weights, rows.l + int64_t{first} * kLanes);
  const ListedSums sums = {.o = rows.o + int64_t{first} * task.head_dim,
                           .merged = rows.merged_o + int64_t{first} * task.head_dim,
                           .stride = task.head_dim,
                           .is_first = slab.is_first,
                           .is_last = slab.is_last,
                           .keeps_old = keeps_old,
                           .old_factors = factors.of_old + first,
                           .new_factors = factors.of_new + first};
  const float* values = slab.values;
  for (int c = 0; c < task.head_dim; c += kStripBlocks) {
    const int columns = MinInt(kStripBlocks, task.head_dim - c);
    int column = 0;
    for (; column + kVectors * kLanes <= columns; column += kVectors * kLanes) {
      AddListedValues<R, kVectors>(weights, values + column, columns, slab.lanes, slab.count, sums,
                                   c + column);
    }
    for (; column < columns; column += kLanes) {
      AddListedValues<R, 1>(weights, values + column, columns, slab.lanes, slab.count, sums,
                            c + column);
    }
    values += columns * kStripBlocks;
  }
}

BATON_INLINE void CorrectRows(const AttentionTask& task, const TaskRows& rows,
                              const CorrectedSlab& slab, const MergeFactors& factors) {
  for (int first = 0, count = 0; first < rows.num_rows; first += count) {
    count = NextGroupRows(rows.num_rows - first);
    WithRows(
        count, [&](auto r) __attribute__((always_inline)) {
          CorrectGroup<r>(task, rows, slab, factors, first);
        });
  }
}

// Rows that saw no key get the sums of none.
BATON_INLINE void BeginUnseen(const AttentionTask& task, const TaskRows& rows) {
  uint8_t* seen = SeenOf(rows);
  for (int r = 0; r < rows.num_rows; ++r) {
    if (seen[r] != 0) continue;
    float* o = rows.merged_o + int64_t{r} * task.head_dim;
    for (int c = 0; c < task.head_dim; c += kLanes) Store(o + c, Zero());
    rows.merged_m[r] = kNoMaximum;
    rows.merged_l[r] = 0.0f;
    seen[r] = 1;
  }
}

// Raises a row's merged m to that of its estimates, `shift` above its top, where it lags behind too
// far; the factors that this asks for replace the tops (new) and the rows' running m (old).
BATON_INLINE MergeFactors FactorsOf(const TaskRows& rows, float shift, float* row_tops) {
  for (int r = 0; r < rows.num_rows; r += kLanes) {
    const f32x16 own = Add(Load(row_tops + r), Set1(shift));
    const f32x16 old = Load(rows.merged_m + r);
    const f32x16 top = SelectGreater(own, Add(old, Set1(kLazyMargin)), own, old);
    Store(rows.m + r, Exp2(Sub(old, top)));
    Store(row_tops + r, Exp2(Sub(own, top)));
    Store(rows.merged_m + r, top);
  }
  return {.of_old = rows.m, .of_new = row_tops};
}

// The corrected blocks are a last segment, whose weights are those of score.
void CorrectDropped(const AttentionTask& task, const TileEstimates& estimates,
                    const int32_t* corrected, int64_t num_corrected) {
  const TaskRows rows = LayOut(task);
  BeginUnseen(task, rows);
  const MergeFactors factors =
      FactorsOf(rows, estimates.correct_bias[0] - estimates.score_bias[0], estimates.row_tops);
  const int64_t slab_floats = int64_t{kStripBlocks} * task.head_dim;
  for (int64_t begin = 0; begin < num_corrected;) {
    const bool is_first = begin == 0;
    const ScoredStrip strip =
        StripAt(task, rows, estimates, int64_t{corrected[begin]} / kStripBlocks);
    int32_t lanes[kStripBlocks];
    float listed[kStripBlocks] = {};
    int count = 0;
    for (; begin < num_corrected && corrected[begin] / kStripBlocks == strip.strip; ++begin) {
      lanes[count] = corrected[begin] % kStripBlocks;
      listed[lanes[count++]] = 1.0f;
    }
    for (int i = 0; i < estimates.num_slabs; ++i) {
      CorrectRows(task, rows,
                  {.lanes = lanes,
                   .count = count,
                   .listed = listed,
                   .values = strip.packed + (estimates.num_slabs + i) * slab_floats,
                   .weights = strip.z + int64_t{i} * rows.num_rows * kStripBlocks,
                   .is_first = is_first && i == 0,
                   .is_last = begin == num_corrected && i + 1 == estimates.num_slabs},
                  factors);
    }
  }
  for (int r = 0; r < rows.num_rows; ++r) {
    const float l = ReduceAdd(Load(rows.l + int64_t{r} * kLanes));
    StorePartial(
        rows.merged_l + r,
        Fma(Set1(l), Set1(factors.of_new[r]), Mul(Set1(rows.merged_l[r]), Set1(factors.of_old[r]))),
        1);
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
