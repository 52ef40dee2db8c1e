// Attention over a block of KvType::kQ8, as attention.inl.h over other blocks: logits, weights,
// weighted values of a few rows.
//
//   logit = sum over groups of 32 components, ascending, of (codes . codes) * key's scale * query's
//   output += (weights' codes . values' codes) * the weights' scale
//
// A row's queries are quantized once per task (Quantize, 32 components to a scale). Its weights of
// a block are multiplied by their values' scales and then quantized to 0..255, the largest of them
// being 255. The sum of weights, by which the output is divided in the end, is that of weights
// before they are rounded. A hidden token's weight is 0, and what its codes hold does not matter.
#pragma once

#include <cstdint>

#include "kernels/attention.inl.h"
#include "kernels/q8_products.inl.h"
#include "kernels/q8_record.inl.h"

namespace baton::BATON_ISA {
namespace {

// One block of codes as a group of rows reads it.
struct Q8Work : GroupWork {
  Q8Record record;
  Q8Queries queries;      // of the group's rows
  uint8_t* weight_codes;  // [R][64] codes
};

// Turns a row's weights, times the values' scales, into codes; returns their scale. Weights of
// tokens that are not visible count as 0, whatever their values' scales hold.
template <bool kAllVisible>
BATON_INLINE float QuantizeWeights(const f32x16 (&weights)[kBlockVectors],
                                   const float* value_scales, TokenRange visible, uint8_t* codes) {
  f32x16 p[kBlockVectors];
  BATON_UNROLL
  for (int v = 0; v < kBlockVectors; ++v) {
    p[v] = Mul(weights[v], Load(value_scales + v * kLanes));
    if constexpr (!kAllVisible) {
      p[v] = SelectBelow(ClampLanes(visible.end - v * kLanes), p[v], Zero());
      p[v] = SelectBelow(ClampLanes(visible.begin - v * kLanes), Zero(), p[v]);
    }
  }
  // None is below 0, so as integers they are ordered as they are as numbers; see CodeScaleOf. A
  // NaN may have a sign.
  const i32x16 tops = MaxInt(MaxInt(AsInt(Abs(p[0])), AsInt(Abs(p[1]))),
                             MaxInt(AsInt(Abs(p[2])), AsInt(Abs(p[3]))));
  const CodeScale scale = CodeScaleOf(ReduceMaxInt(tops), 255.0f, 0x1p-118f);
  if (scale.inverse == 0.0f) [[unlikely]] {
    StoreQ8Codes(codes, SetInt1(0), SetInt1(0));
    StoreQ8Codes(codes + 2 * kLanes * kCodeBytes, SetInt1(0), SetInt1(0));
    return scale.scale;
  }
  const f32x16 inverse = Set1(scale.inverse);
  i32x16 rounded[kBlockVectors];
  BATON_UNROLL
  for (int v = 0; v < kBlockVectors; ++v) rounded[v] = RoundToInt(Mul(p[v], inverse));
  StoreQ8Codes(codes, rounded[0], rounded[1]);
  StoreQ8Codes(codes + 2 * kLanes * kCodeBytes, rounded[2], rounded[3]);
  return scale.scale;
}

// Logits of the 16-lane vectors [begin, end) of keys.
template <int R>
[[gnu::noinline]] void Q8LogitsOfVectors(const Q8Work& work, int begin, int end) {
  constexpr int kVectors = TileVectors(R);
  const Q8Record& record = work.record;
  const int64_t ahead = work.prefetch ? record.values - record.keys : 0;
  const auto logits = [&](auto count, int v) __attribute__((always_inline)) {
    Q8Logits<R, count>(work.queries, record.keys + v * kLineBytes, record.key_scales + v * kLanes,
                       work.head_dim, ahead, work.logits + v * kLanes);
  };
  int v = begin;
  for (; v + kVectors <= end; v += kVectors) logits(Count<kVectors>(), v);
  if constexpr (kVectors == 4) {
    if (end - v == 3) return logits(Count<3>(), v);
    if (end - v == 2) return logits(Count<2>(), v);
  }
  for (; v < end; ++v) logits(Count<1>(), v);
}

// Adds the weighted values of the tokens of the quads to all rows.
template <int R>
[[gnu::noinline]] void Q8ValuesOfTokens(const Q8Work& work, const float* scales, TokenRange quads) {
  constexpr int kVectors = TileVectors(R);
  const int64_t ahead =
      work.prefetch ? work.next - reinterpret_cast<const char*>(work.record.values) : 0;
  for (int c = 0; c < work.head_dim; c += kBlockTokens) {
    const int columns = MinInt(kBlockTokens, work.head_dim - c);
    const uint8_t* slab = work.record.values + int64_t{c} * kBlockTokens;
    int column = 0;
    for (; column + kVectors * kLanes <= columns; column += kVectors * kLanes) {
      AddQ8Values<R, kVectors>(work.weight_codes, scales, slab + 4 * column, columns, quads, ahead,
                               {work.o + c + column, work.head_dim, work.is_fresh});
    }
    for (; column < columns; column += kLanes) {
      AddQ8Values<R, 1>(work.weight_codes, scales, slab + 4 * column, columns, quads, ahead,
                        {work.o + c + column, work.head_dim, work.is_fresh});
    }
  }
}

// One row's 64 logits to weights and their codes; returns the codes' scale.
template <bool kAllVisible>
[[gnu::noinline]] float WeighQ8Row(const Q8Work& work, int r, TokenRange visible) {
  const RowState row = {.o = work.o + r * work.head_dim, .m = work.m + r, .l = work.l + r * kLanes};
  float* logits = work.logits + r * kBlockTokens;
  f32x16 s[kBlockVectors];
  if (kAllVisible && work.is_fresh) {
    WeighFreshLogits(logits, work.soft_cap_log2, row, s);
  } else {
    WeighLogits<kAllVisible>(logits, visible, work.soft_cap_log2, work.head_dim, row, s);
  }
  return QuantizeWeights<kAllVisible>(s, work.record.value_scales, visible,
                                      work.weight_codes + r * kWeightCodeBytes);
}

template <int R>
[[gnu::noinline]] void AttendQ8Block(const Q8Work& work) {
  float scales[R];
  if (work.whole) {
    Q8LogitsOfVectors<R>(work, 0, kBlockVectors);
    for (int r = 0; r < R; ++r) {
      scales[r] = WeighQ8Row<true>(work, r, {.begin = 0, .end = kBlockTokens});
    }
    Q8ValuesOfTokens<R>(work, scales, {.begin = 0, .end = kBlockTokens / 4});
    return;
  }
  int first = kBlockTokens;
  int last = 0;
  for (int r = 0; r < R; ++r) {
    if (work.visible[r].begin >= work.visible[r].end) continue;
    first = MinInt(first, work.visible[r].begin);
    last = MaxInt(last, work.visible[r].end);
  }
  if (first >= last) return;
  Q8LogitsOfVectors<R>(work, first / kLanes, (last + kLanes - 1) / kLanes);
  for (int r = 0; r < R; ++r) scales[r] = WeighQ8Row<false>(work, r, work.visible[r]);
  Q8ValuesOfTokens<R>(work, scales, {.begin = first / 4, .end = (last + 3) / 4});
}

BATON_INLINE void AttendBlock(int num_rows, const Q8Work& work) {
  WithRows(
      num_rows, [&](auto r) __attribute__((always_inline)) { AttendQ8Block<r>(work); });
}

}  // namespace
}  // namespace baton::BATON_ISA
