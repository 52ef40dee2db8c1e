// The inner loops of attention on f32x16: logits, weights, weighted values of a few rows over one
// block of 64 keys.
//
// Both phases run these loops, so a row's bits cannot depend on the phase. Per (row, key) the dot
// product is one chain, components ascending; per (row, component) the output is one chain, keys
// ascending. How many rows and vectors a tile holds is a matter of registers alone.
#pragma once

#include <cstdint>

#include "kernels/attention_limits.h"
#include "kernels/f32x16.h"
#include "kernels/math.inl.h"
#include "kernels/unroll.h"
#include "tensor/kv_record.h"

namespace baton::BATON_ISA {
namespace {

inline constexpr int kBlockVectors = kBlockTokens / kLanes;

// A row's maximum may lag behind by this much (in units of log2) before its sums are rescaled.
inline constexpr float kLazyMargin = 8.0f;
// The maximum of no keys. Finite, so that no infinity minus infinity arises.
inline constexpr float kNoMaximum = -0x1p126f;

// Vectors of 16 lanes beside each other in a tile of so many rows: what the registers hold.
constexpr int TileVectors(int num_rows) {
#if defined(BATON_ISA_AVX512)
  return num_rows > 0 ? kBlockVectors : 0;
#elif defined(BATON_ISA_AVX2)
  return num_rows == 1 ? 4 : num_rows <= 2 ? 2 : 1;
#else
  return num_rows > 0 ? 1 : 0;
#endif
}

// Components or tokens per turn of an inner loop. Its end is mispredicted, which costs as much as a
// few of them; fewer turns are predicted better.
inline constexpr int kStepsAtOnce = 4;

// A number of rows or vectors that is known to the compiler.
template <int N>
struct Count {
  constexpr operator int() const { return N; }
};

// Calls with Count<num_rows>. Requires: 1 <= num_rows <= kGroupRows.
template <typename Call>
BATON_INLINE void WithRows(int num_rows, const Call& call) {
  static_assert(kGroupRows == 6);
  switch (num_rows) {
    case 1:
      return call(Count<1>());
    case 2:
      return call(Count<2>());
    case 3:
      return call(Count<3>());
    case 4:
      return call(Count<4>());
    case 5:
      return call(Count<5>());
    default:
      return call(Count<kGroupRows>());
  }
}

// Calls with Count<count>. Requires: 1 <= count <= 4.
template <typename Call>
BATON_INLINE void WithVectors(int count, const Call& call) {
  static_assert(kBlockVectors == 4);
  switch (count) {
    case 1:
      return call(Count<1>());
    case 2:
      return call(Count<2>());
    case 3:
      return call(Count<3>());
    default:
      return call(Count<kBlockVectors>());
  }
}

// The elements of a block: binary16 from the cache, or f32 if widened for many rows.
BATON_INLINE f32x16 LoadElements(const uint16_t* p) {
  return LoadHalf(p);
}
BATON_INLINE f32x16 LoadElements(const float* p) {
  return Load(p);
}

// The cache's memory is asked for ahead, into the second cache: the nearest one holds the block
// that is being read, and its places for missing lines are few. Keys and values that are read in
// one pass ask for what comes 8 KB later. Where several passes read them, the first one needs all
// of them already: so they ask for what is read after them, each for its part. Widened blocks are
// near.
inline constexpr int kAheadBytes = 8192;

// What to ask for in a pass: `step` bytes, 128 at most, in each turn of its loop.
struct Ahead {
  const char* at;
  int step;
};
// V: the vectors of a pass.
template <int V>
BATON_INLINE void Prefetch(const uint16_t*, Ahead ahead, int turn) {
  const int step = V == kBlockVectors ? 128 : ahead.step;  // all vectors are one pass
  const char* p = ahead.at + turn * step;
  __builtin_prefetch(p, 0, 2);
  __builtin_prefetch(p + step / 2, 0, 2);
}
template <int V>
BATON_INLINE void Prefetch(const float*, Ahead, int) {}

// Shares out what is asked for among passes.
class Passes {
 public:
  // `bytes`: of all passes, in each of `turns` turns. Requires: num_passes > 0.
  Passes(const char* at, int num_passes, int turns, int bytes)
      : at_(at), turns_(turns), step_(bytes / num_passes) {}
  Ahead Next() {
    const Ahead ahead = {at_, step_};
    at_ += int64_t{turns_} * step_;
    return ahead;
  }

 private:
  const char* at_;
  int turns_;
  int step_;
};

// logits[r][v] = q[r] . keys[16 lanes of v], for V vectors of keys.
// q: [R][head_dim]; keys: [head_dim][64]; logits: [R][64]; ahead: turns are components.
// Requires: head_dim is a multiple of 4.
template <int R, int V, typename T>
[[gnu::noinline]] void Logits(const float* q, const T* keys, int head_dim, Ahead ahead,
                              float* logits) {
  f32x16 sum[R][V];
  BATON_UNROLL
  for (int r = 0; r < R; ++r) {
    BATON_UNROLL
    for (int v = 0; v < V; ++v) sum[r][v] = Zero();
  }
  for (int first = 0; first < head_dim; first += kStepsAtOnce) {
    BATON_UNROLL
    for (int c = first; c < first + kStepsAtOnce; ++c) {
      Prefetch<V>(keys, ahead, c);
      f32x16 key[V];
      BATON_UNROLL
      for (int v = 0; v < V; ++v) key[v] = LoadElements(keys + c * kBlockTokens + v * kLanes);
      BATON_UNROLL
      for (int r = 0; r < R; ++r) {
        const f32x16 x = Set1(q[r * head_dim + c]);
        BATON_UNROLL
        for (int v = 0; v < V; ++v) sum[r][v] = Fma(x, key[v], sum[r][v]);
      }
    }
  }
  BATON_UNROLL
  for (int r = 0; r < R; ++r) {
    BATON_UNROLL
    for (int v = 0; v < V; ++v) Store(logits + r * kBlockTokens + v * kLanes, sum[r][v]);
  }
}

// The tokens [begin, end) of a block.
struct TokenRange {
  int begin;
  int end;
};

// Where rows of o lie: rows `stride` apart.
struct OutputRows {
  float* o;
  int stride;
  bool is_fresh;  // taken as zero, whatever they hold
};

// o[r][16 lanes of v] += weights[r][t] * values[t] for the tokens of the range, ascending.
// weights: [R][64]; values: [64][columns]; ahead: turns are tokens.
template <int R, int V, typename T>
[[gnu::noinline]] void AddValues(const float* weights, const T* values, int columns,
                                 TokenRange tokens, Ahead ahead, const OutputRows& out) {
  f32x16 sum[R][V];
  if (out.is_fresh) {
    BATON_UNROLL
    for (int r = 0; r < R; ++r) {
      BATON_UNROLL
      for (int v = 0; v < V; ++v) sum[r][v] = Zero();
    }
  } else {
    BATON_UNROLL
    for (int r = 0; r < R; ++r) {
      BATON_UNROLL
      for (int v = 0; v < V; ++v) sum[r][v] = Load(out.o + r * out.stride + v * kLanes);
    }
  }
  const auto add = [&](int t) __attribute__((always_inline)) {
    Prefetch<V>(values, ahead, t);
    f32x16 value[V];
    BATON_UNROLL
    for (int v = 0; v < V; ++v) value[v] = LoadElements(values + t * columns + v * kLanes);
    BATON_UNROLL
    for (int r = 0; r < R; ++r) {
      const f32x16 x = Set1(weights[r * kBlockTokens + t]);
      BATON_UNROLL
      for (int v = 0; v < V; ++v) sum[r][v] = Fma(x, value[v], sum[r][v]);
    }
  };
  int t = tokens.begin;
  for (; t + kStepsAtOnce <= tokens.end; t += kStepsAtOnce) {
    BATON_UNROLL
    for (int i = 0; i < kStepsAtOnce; ++i) add(t + i);
  }
  for (; t < tokens.end; ++t) add(t);
  BATON_UNROLL
  for (int r = 0; r < R; ++r) {
    BATON_UNROLL
    for (int v = 0; v < V; ++v) Store(out.o + r * out.stride + v * kLanes, sum[r][v]);
  }
}

// The largest lane. If one is NaN the result is any lane.
BATON_INLINE float MaxLane(f32x16 a) {
#if defined(BATON_ISA_AVX512)
  return _mm512_reduce_max_ps(a.v);
#elif defined(BATON_ISA_AVX2)
  const __m256 eight = _mm256_max_ps(a.lo, a.hi);
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_shuffle_ps(four, four, 1)));
#else
  return ReduceMax(a);
#endif
}

// Whether any lane of a is greater than b; one that is NaN is not.
BATON_INLINE bool AnyGreater(f32x16 a, float b) {
#if defined(BATON_ISA_AVX512)
  return _mm512_cmp_ps_mask(a.v, _mm512_set1_ps(b), _CMP_GT_OQ) != 0;
#elif defined(BATON_ISA_AVX2)
  const __m256 bound = _mm256_set1_ps(b);
  return _mm256_movemask_ps(_mm256_or_ps(_mm256_cmp_ps(a.lo, bound, _CMP_GT_OQ),
                                         _mm256_cmp_ps(a.hi, bound, _CMP_GT_OQ))) != 0;
#else
  bool any = false;
  BATON_EACH_LANE any = any || a.v[i] > b;
  return any;
#endif
}

BATON_INLINE int ClampLanes(int n) {
  return n < 0 ? 0 : n > kLanes ? kLanes : n;
}

// What a row carries through a segment.
struct RowState {
  float* o;  // [head_dim]
  float* m;  // the reference of its weights, in units of log2
  float* l;  // [16] lanes of the sum of weights
};

// Takes the largest lane as the row's m, and multiplies its sums by 2^(old m - new m).
[[gnu::noinline, gnu::cold]] void Rescale(const RowState& row, f32x16 tops, int head_dim) {
  const float top = MaxLane(tops);
  const f32x16 factor = Exp2(Sub(Set1(*row.m), Set1(top)));
  Store(row.l, Mul(Load(row.l), factor));
  for (int c = 0; c < head_dim; c += kLanes) Store(row.o + c, Mul(Load(row.o + c), factor));
  *row.m = top;
}

// One row's 64 logits, capped if there is a cap.
BATON_INLINE void LoadLogits(const float* logits, float soft_cap_log2, f32x16 (&s)[kBlockVectors]) {
  BATON_UNROLL
  for (int v = 0; v < kBlockVectors; ++v) s[v] = Load(logits + v * kLanes);
  if (soft_cap_log2 != 0.0f) {
    BATON_UNROLL
    for (int v = 0; v < kBlockVectors; ++v) s[v] = Mul(Tanh(s[v]), Set1(soft_cap_log2));
  }
}

// Turns logits into weights 2^(s - m); returns their sums in 16 lanes.
BATON_INLINE f32x16 ToWeights(float m, f32x16 (&s)[kBlockVectors]) {
  BATON_UNROLL
  for (int v = 0; v < kBlockVectors; ++v) s[v] = Exp2(Sub(s[v], Set1(m)));
  return Add(Add(s[0], s[1]), Add(s[2], s[3]));
}

// s: the weights of a row that sees all tokens of its segment's first block. Nothing is rescaled:
// the sums are zero, and so is their factor.
BATON_INLINE void WeighFreshLogits(const float* logits, float soft_cap_log2, const RowState& row,
                                   f32x16 (&s)[kBlockVectors]) {
  LoadLogits(logits, soft_cap_log2, s);
  const float top = MaxLane(Max(Max(s[0], s[1]), Max(s[2], s[3])));
  *row.m = top > kNoMaximum ? top : kNoMaximum;
  Store(row.l, ToWeights(*row.m, s));
}

// s: the weights 2^(s - m) of one row's 64 logits, +0 for hidden tokens. They are added to l.
template <bool kAllVisible>
BATON_INLINE void WeighLogits(const float* logits, TokenRange visible, float soft_cap_log2,
                              int head_dim, const RowState& row, f32x16 (&s)[kBlockVectors]) {
  LoadLogits(logits, soft_cap_log2, s);
  if constexpr (!kAllVisible) {
    const f32x16 hidden = Set1(-__builtin_inff());
    BATON_UNROLL
    for (int v = 0; v < kBlockVectors; ++v) {
      s[v] = SelectBelow(ClampLanes(visible.end - v * kLanes), s[v], hidden);
      s[v] = SelectBelow(ClampLanes(visible.begin - v * kLanes), hidden, s[v]);
    }
  }
  // The maximum itself is wanted only where it is new, which is seldom.
  const f32x16 tops = Max(Max(s[0], s[1]), Max(s[2], s[3]));
  if (AnyGreater(tops, *row.m + kLazyMargin)) [[unlikely]]
    Rescale(row, tops, head_dim);
  const f32x16 sum = ToWeights(*row.m, s);
  Store(row.l, Add(Load(row.l), sum));
}

BATON_INLINE void StoreWeights(const f32x16 (&s)[kBlockVectors], float* weights) {
  BATON_UNROLL
  for (int v = 0; v < kBlockVectors; ++v) Store(weights + v * kLanes, s[v]);
}

// Turns one row's 64 logits into weights in their place.
[[gnu::noinline]] void WeighFreshRow(float* logits, float soft_cap_log2, const RowState& row) {
  f32x16 s[kBlockVectors];
  WeighFreshLogits(logits, soft_cap_log2, row, s);
  StoreWeights(s, logits);
}
template <bool kAllVisible>
[[gnu::noinline]] void WeighRow(float* logits, TokenRange visible, float soft_cap_log2,
                                int head_dim, const RowState& row) {
  f32x16 s[kBlockVectors];
  WeighLogits<kAllVisible>(logits, visible, soft_cap_log2, head_dim, row, s);
  StoreWeights(s, logits);
}

// A group of rows on its way over a block.
struct GroupWork {
  const char* next;           // what will be read after it: the next record, or the block itself
  bool prefetch;              // by the first group of a task only
  bool whole;                 // all rows see all tokens
  bool is_fresh;              // the segment's first block, and whole: o, m and l hold anything
  const TokenRange* visible;  // [R], unless whole
  float* logits;              // [R][64]
  float* o;                   // [R][head_dim]
  float* m;                   // [R]
  float* l;                   // [R][16]
  int head_dim;
  float soft_cap_log2;
};

// One block of KvType::kF16, or widened from it, as a group of rows reads it.
template <typename T>
struct BlockWork : GroupWork {
  const T* keys;    // [head_dim][64]
  const T* values;  // slabs [64][columns]
  const float* q;   // [R][head_dim]
};

// Logits of the 16-lane vectors [begin, end) of keys; there may be none.
template <int R, typename T>
[[gnu::noinline]] void LogitsOfVectors(const BlockWork<T>& work, int begin, int end) {
  if (begin >= end) return;
  constexpr int kVectors = TileVectors(R);
  const char* self = reinterpret_cast<const char*>(work.keys);
  const int num_passes = (end - begin + kVectors - 1) / kVectors;
  const char* next = self;
  if (work.prefetch) {
    next = num_passes == 1 ? self + kAheadBytes : reinterpret_cast<const char*>(work.values);
  }
  Passes passes(next, num_passes, work.head_dim, 128);
  int v = begin;
  for (; v + kVectors <= end; v += kVectors) {
    Logits<R, kVectors>(work.q, work.keys + v * kLanes, work.head_dim, passes.Next(),
                        work.logits + v * kLanes);
  }
  if constexpr (kVectors == 4) {
    // Vectors together cost less than one by one.
    if (end - v >= 2) {
      (end - v == 2 ? Logits<R, 2, T> : Logits<R, 3, T>)(work.q, work.keys + v * kLanes,
                                                         work.head_dim, passes.Next(),
                                                         work.logits + v * kLanes);
      return;
    }
  }
  for (; v < end; ++v) {
    Logits<R, 1>(work.q, work.keys + v * kLanes, work.head_dim, passes.Next(),
                 work.logits + v * kLanes);
  }
}

// Adds the weighted values of the tokens to rows first_row.. of the group, R of them.
template <int R, typename T>
[[gnu::noinline]] void ValuesOfTokens(const BlockWork<T>& work, int first_row, TokenRange tokens) {
  constexpr int kVectors = TileVectors(R);
  const float* weights = work.logits + first_row * kBlockTokens;
  float* o = work.o + first_row * work.head_dim;
  const T* slab = work.values;
  for (int c = 0; c < work.head_dim; c += kBlockTokens) {
    const int columns = work.head_dim - c < kBlockTokens ? work.head_dim - c : kBlockTokens;
    const T* next_slab = slab + columns * kBlockTokens;
    const char* self = reinterpret_cast<const char*>(slab);
    const int vectors = columns / kLanes;
    const int num_passes = vectors / kVectors + vectors % kVectors;
    const char* next = self;
    if (work.prefetch && num_passes == 1) {
      next =
          c + kBlockTokens < work.head_dim ? reinterpret_cast<const char*>(next_slab) : work.next;
    } else if (work.prefetch) {
      next = work.next + int64_t{c} * kBlockTokens * int{sizeof(T)};
    }
    Passes passes(next, num_passes, kBlockTokens, num_passes == 1 ? 128 : 2 * columns);
    int column = 0;
    for (; column + kVectors * kLanes <= columns; column += kVectors * kLanes) {
      AddValues<R, kVectors>(weights, slab + column, columns, tokens, passes.Next(),
                             {o + c + column, work.head_dim, work.is_fresh});
    }
    for (; column < columns; column += kLanes) {
      AddValues<R, 1>(weights, slab + column, columns, tokens, passes.Next(),
                      {o + c + column, work.head_dim, work.is_fresh});
    }
    slab = next_slab;
  }
}

BATON_INLINE int MinInt(int a, int b) {
  return a < b ? a : b;
}
BATON_INLINE int MaxInt(int a, int b) {
  return a > b ? a : b;
}

// A block at the edge of what the rows see. Rows lie in ascending order of positions, so neither
// bound of their ranges ever falls.
template <int R, typename T>
[[gnu::noinline]] void AttendEdgeBlock(const BlockWork<T>& work) {
  TokenRange common = {.begin = 0, .end = kBlockTokens};
  int first = kBlockTokens;
  int last = 0;
  for (int r = 0; r < R; ++r) {
    const TokenRange visible = work.visible[r];
    common.begin = MaxInt(common.begin, visible.begin);
    common.end = MinInt(common.end, visible.end);
    if (visible.begin >= visible.end) continue;
    first = MinInt(first, visible.begin);
    last = MaxInt(last, visible.end);
  }
  if (first >= last) return;
  LogitsOfVectors<R>(work, first / kLanes, (last + kLanes - 1) / kLanes);
  for (int r = 0; r < R; ++r) {
    if (work.visible[r].begin >= work.visible[r].end) continue;
    WeighRow<false>(work.logits + r * kBlockTokens, work.visible[r], work.soft_cap_log2,
                    work.head_dim,
                    {.o = work.o + r * work.head_dim, .m = work.m + r, .l = work.l + r * kLanes});
  }
  // A hidden token is not multiplied by 0 but left out: its value may be anything. So the tokens
  // that all rows see go together, those before and after row by row.
  const bool some_common = common.begin < common.end;
  if (!some_common) common.begin = common.end = kBlockTokens;
  BlockWork<T> own = work;
  own.prefetch = false;
  for (int r = 0; r < R; ++r) {
    const TokenRange before = {.begin = work.visible[r].begin,
                               .end = MinInt(work.visible[r].end, common.begin)};
    if (before.begin < before.end) ValuesOfTokens<1>(own, r, before);
  }
  if (!some_common) return;
  ValuesOfTokens<R>(work, 0, common);
  for (int r = 0; r < R; ++r) {
    const TokenRange after = {.begin = common.end, .end = work.visible[r].end};
    if (after.begin < after.end) ValuesOfTokens<1>(own, r, after);
  }
}

// A block that all rows see whole.
template <int R, typename T>
[[gnu::noinline]] void AttendWholeBlock(const BlockWork<T>& work) {
  LogitsOfVectors<R>(work, 0, kBlockVectors);
  for (int r = 0; r < R; ++r) {
    float* logits = work.logits + r * kBlockTokens;
    const RowState row = {
        .o = work.o + r * work.head_dim, .m = work.m + r, .l = work.l + r * kLanes};
    if (work.is_fresh) {
      WeighFreshRow(logits, work.soft_cap_log2, row);
    } else {
      WeighRow<true>(logits, {.begin = 0, .end = kBlockTokens}, work.soft_cap_log2, work.head_dim,
                     row);
    }
  }
  ValuesOfTokens<R>(work, 0, {.begin = 0, .end = kBlockTokens});
}

template <int R, typename T>
BATON_INLINE void AttendBlockOf(const BlockWork<T>& work) {
  if (work.whole) {
    AttendWholeBlock<R>(work);
  } else {
    AttendEdgeBlock<R>(work);
  }
}

// One block for a group of num_rows rows. Requires: 1 <= num_rows <= kGroupRows.
template <typename T>
BATON_INLINE void AttendBlock(int num_rows, const BlockWork<T>& work) {
  WithRows(
      num_rows, [&](auto r) __attribute__((always_inline)) { AttendBlockOf<r>(work); });
}

}  // namespace
}  // namespace baton::BATON_ISA
