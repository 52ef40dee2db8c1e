// Products of 8-bit codes in attention: of queries with the keys, of weights with the values of a
// record of KvType::kQ8. Integers, which are exact, so the same on every instruction set.
#pragma once

#include <cstdint>

#include "kernels/attention.inl.h"
#include "kernels/attention_ops.h"
#include "kernels/i8dot.inl.h"
#include "kernels/q8_record.inl.h"
#include "kernels/quantize.inl.h"

namespace baton::BATON_ISA {
namespace {

// kCodeBytes: of a code of a query or a weight.
//
// AddQuad: sum[r][v] += the 4 codes of row r * those of 16 lanes of a record, for R rows whose
// codes lie row_bytes apart, and V lines of a record: keys (u8, times s8) or values (s8, times u8).
// prefetch: bytes from a line to what is asked for. AVX2 has no product of bytes that cannot
// saturate here: it splits a line into its even and odd bytes, in 16 bits, and a quad of codes lies
// as 0 2 1 3.
#if defined(BATON_ISA_AVX512)

inline constexpr int kCodeBytes = 1;

template <bool kIsKeys, int R, int V>
BATON_INLINE void AddQuad(const uint8_t* lines, int64_t prefetch, const uint8_t* codes,
                          int row_bytes, i32x16 (&sum)[R][V]) {
  __m512i line[V];
  BATON_UNROLL
  for (int v = 0; v < V; ++v) {
    __builtin_prefetch(lines + v * kLineBytes + prefetch, 0, 2);
    line[v] = LoadLine(lines + v * kLineBytes).v;
  }
  BATON_UNROLL
  for (int r = 0; r < R; ++r) {
    const uint8_t* own = codes + r * row_bytes;
    if constexpr (kIsKeys) {
      BATON_UNROLL
      for (int v = 0; v < V; ++v) sum[r][v].v = MulAdd(sum[r][v].v, {line[v]}, own);
    } else {
      const __m512i quad = _mm512_set1_epi32(LoadWord(own));
      BATON_UNROLL
      for (int v = 0; v < V; ++v) sum[r][v].v = _mm512_dpbusd_epi32(sum[r][v].v, quad, line[v]);
    }
  }
}

#elif defined(BATON_ISA_AVX2)

inline constexpr int kCodeBytes = 2;

// The even or odd bytes of a vector, in 16 bits.
template <bool kIsSigned>
BATON_INLINE __m256i SplitBytes(__m256i a, bool is_odd) {
  if (is_odd) return kIsSigned ? _mm256_srai_epi16(a, 8) : _mm256_srli_epi16(a, 8);
  if (kIsSigned) return _mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8);
  return _mm256_and_si256(a, _mm256_set1_epi16(0xff));
}

template <bool kIsKeys, int R, int V>
BATON_INLINE void AddQuad(const uint8_t* lines, int64_t prefetch, const uint8_t* codes,
                          int row_bytes, i32x16 (&sum)[R][V]) {
  BATON_UNROLL
  for (int v = 0; v < V; ++v) {
    const uint8_t* at = lines + v * kLineBytes;
    __builtin_prefetch(at + prefetch, 0, 2);
    BATON_UNROLL
    for (int odd = 0; odd < 2; ++odd) {
      const __m256i low = SplitBytes<!kIsKeys>(Load32(at), odd != 0);
      const __m256i high = SplitBytes<!kIsKeys>(Load32(at + 32), odd != 0);
      BATON_UNROLL
      for (int r = 0; r < R; ++r) {
        const __m256i pair = _mm256_set1_epi32(LoadWord(codes + r * row_bytes + 4 * odd));
        sum[r][v].lo = _mm256_add_epi32(sum[r][v].lo, _mm256_madd_epi16(low, pair));
        sum[r][v].hi = _mm256_add_epi32(sum[r][v].hi, _mm256_madd_epi16(high, pair));
        // Holds the compiler to this order: GCC 12 would load all codes first and spill them.
        asm volatile("" : "+x"(sum[r][v].lo), "+x"(sum[r][v].hi));
      }
    }
  }
}

#else

inline constexpr int kCodeBytes = 1;

template <bool kIsKeys, int R, int V>
BATON_INLINE void AddQuad(const uint8_t* lines, int64_t, const uint8_t* codes, int row_bytes,
                          i32x16 (&sum)[R][V]) {
  for (int v = 0; v < V; ++v) {
    for (int j = 0; j < 4; ++j) {
      int16_t line[kLanes];
      BATON_EACH_LANE {
        const uint8_t code = lines[v * kLineBytes + 4 * i + j];
        line[i] = kIsKeys ? code : static_cast<int8_t>(code);
      }
      for (int r = 0; r < R; ++r) {
        const uint8_t byte = codes[r * row_bytes + j];
        const int32_t code = kIsKeys ? static_cast<int8_t>(byte) : byte;
        BATON_EACH_LANE sum[r][v].v[i] += line[i] * code;
      }
    }
  }
}

#endif

inline constexpr int kQuadBytes = 4 * kCodeBytes;
inline constexpr int kWeightCodeBytes = kBlockTokens * kCodeBytes;
static_assert(kCodeBytes <= kMaxQ8CodeBytes);

// 32 codes, in the form in which this instruction set multiplies them.
BATON_INLINE void StoreQ8Codes(uint8_t* p, i32x16 first, i32x16 second) {
  StoreCodes<kCodeBytes == 1 ? Precision::kFast : Precision::kExact>(p, first, second);
}

// Queries of rows, as codes.
struct Q8Queries {
  uint8_t* codes;   // [rows][padded head_dim] codes
  float* scales;    // [rows][groups]
  int32_t* starts;  // [rows][groups] -128 times the sum of codes: keys' codes are 128 too large
  int groups;

  BATON_INLINE int row_bytes() const { return groups * kKeyScaleGroup * kCodeBytes; }
  BATON_INLINE Q8Queries From(int row) const {
    return {codes + int64_t{row} * row_bytes(), scales + int64_t{row} * groups,
            starts + int64_t{row} * groups, groups};
  }
};

// Quantizes one row of queries. Requires: head_dim is a multiple of 16.
BATON_INLINE void QuantizeQuery(const float* q, int head_dim, const Q8Queries& to) {
  for (int g = 0; g < to.groups; ++g) {
    const int c = g * kKeyScaleGroup;
    const f32x16 second = c + kLanes < head_dim ? Load(q + c + kLanes) : Zero();
    const BlockCodes codes = Quantize<Precision::kFast>(Load(q + c), second);
    StoreQ8Codes(to.codes + c * kCodeBytes, codes.first, codes.second);
    to.scales[g] = codes.scale;
    to.starts[g] = -128 * (ReduceAddInt(codes.first) + ReduceAddInt(codes.second));
  }
}

// What one group of components adds to the logits of R rows and V vectors of keys.
struct Q8Group {
  const uint8_t* keys;   // of the first vector and component
  const float* scales;   // of the first vector
  int64_t ahead;         // of each line that is read, the one so many bytes on is asked for
  bool is_first;         // the logits hold anything
  const uint8_t* codes;  // of the first row
  int row_bytes;         // from the codes of a row to those of the next
  const float* q_scales;
  const int32_t* starts;
  int row_groups;  // from the scale or start of a row to that of the next
};
// Unrolled as a whole: GCC 12 spills the sums of a loop.
template <int R, int V, int kQuads>
BATON_INLINE void AddQ8Group(const Q8Group& group, float* logits) {
  i32x16 sum[R][V];
  BATON_UNROLL
  for (int r = 0; r < R; ++r) {
    BATON_UNROLL
    for (int v = 0; v < V; ++v) sum[r][v] = SetInt1(group.starts[r * group.row_groups]);
  }
  BATON_UNROLL
  for (int quad = 0; quad < kQuads; ++quad) {
    AddQuad<true>(group.keys + quad * kKeyLineBytes, group.ahead, group.codes + quad * kQuadBytes,
                  group.row_bytes, sum);
  }
  BATON_UNROLL
  for (int v = 0; v < V; ++v) {
    const f32x16 scale = Load(group.scales + v * kLanes);
    BATON_UNROLL
    for (int r = 0; r < R; ++r) {
      float* to = logits + r * kBlockTokens + v * kLanes;
      const f32x16 before = group.is_first ? Zero() : Load(to);
      const f32x16 own = Mul(ToFloat(sum[r][v]), scale);
      Store(to, Fma(own, Set1(group.q_scales[r * group.row_groups]), before));
    }
  }
}

// logits[r][v] = q[r] . keys[16 lanes of v], for V vectors of keys; keys and scales begin at the
// first of them. ahead: see Q8Group.
template <int R, int V>
[[gnu::noinline]] void Q8Logits(const Q8Queries& q, const uint8_t* keys, const float* scales,
                                int head_dim, int64_t ahead, float* logits) {
  for (int g = 0; g < q.groups; ++g) {
    const int c = g * kKeyScaleGroup;
    const Q8Group group = {.keys = keys + c * kBlockTokens,
                           .scales = scales + g * kBlockTokens,
                           .ahead = ahead,
                           .is_first = g == 0,
                           .codes = q.codes + c * kCodeBytes,
                           .row_bytes = q.row_bytes(),
                           .q_scales = q.scales + g,
                           .starts = q.starts + g,
                           .row_groups = q.groups};
    if (head_dim - c >= kKeyScaleGroup) {
      AddQ8Group<R, V, kKeyScaleGroup / 4>(group, logits);
    } else {
      AddQ8Group<R, V, kLanes / 4>(group, logits);
    }
  }
}

// o[r][16 lanes of v] += scale[r] * (codes[r] . values) for V vectors of columns; values begin at
// the first of them. Tokens: quads of 4.
template <int R, int V>
[[gnu::noinline]] void AddQ8Values(const uint8_t* codes, const float* scales, const uint8_t* values,
                                   int columns, TokenRange quads, int64_t ahead,
                                   const OutputRows& out) {
  i32x16 sum[R][V];
  BATON_UNROLL
  for (int r = 0; r < R; ++r) {
    BATON_UNROLL
    for (int v = 0; v < V; ++v) sum[r][v] = SetInt1(0);
  }
  const auto add = [&](int quad) __attribute__((always_inline)) {
    AddQuad<false>(values + 4 * quad * columns, ahead, codes + quad * kQuadBytes, kWeightCodeBytes,
                   sum);
  };
  int quad = quads.begin;
  for (; quad + kStepsAtOnce <= quads.end; quad += kStepsAtOnce) {
    BATON_UNROLL
    for (int i = 0; i < kStepsAtOnce; ++i) add(quad + i);
  }
  for (; quad < quads.end; ++quad) add(quad);
  BATON_UNROLL
  for (int r = 0; r < R; ++r) {
    const f32x16 scale = Set1(scales[r]);
    BATON_UNROLL
    for (int v = 0; v < V; ++v) {
      float* to = out.o + r * out.stride + v * kLanes;
      Store(to, Fma(ToFloat(sum[r][v]), scale, out.is_fresh ? Zero() : Load(to)));
    }
  }
}

}  // namespace
}  // namespace baton::BATON_ISA
