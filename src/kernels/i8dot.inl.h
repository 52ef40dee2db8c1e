// Integer side of the linear kernels: lines of codes, and exact dot products of codes with the
// codes of activations. Included by *_isa.cc files only, after f32x16.h.
//
// The integers are exact and so the same everywhere; how they come about, and how the 16-bit codes
// of Precision::kExact lie in memory, is each instruction set's own affair:
//   AVX-512   u8 x s8 into 32 bits (vpdpbusd). kExact: code = 256 hi + lo, [32] hi, then [32] lo,
//             two passes, and S = 256 S_hi + S_lo.
//   AVX-VNNI  as AVX-512, on two registers of 256 bits, the pass of hi first: (S_hi << 8) + S_lo.
//   AVX2      u8 x s8 into 16 bits (vpmaddubsw), widened before a sum can overflow; Q8_0 as
//             |q| x (sign of q) a. Where the codes less their offset fit and the codes do not
//             (Q5_0, Q6_K), a sum starts in its 16 bits and may wrap on its way. kExact: 16 x 16
//             bits into 32 (vpmaddwd) on the even and the odd bytes; codes of a group of 4 inputs
//             lie in the order 0 2 1 3.
//   portable  32-bit arithmetic, codes in their order.
#pragma once

#include "kernels/f32x16.h"
#include "kernels/panel.h"
#include "kernels/precision.h"
#include "kernels/unroll.h"

namespace baton::BATON_ISA {

// Bytes of a block's 32 activation codes.
constexpr int ActivationBytes(Precision precision) {
  return precision == Precision::kFast ? 32 : 64;
}

BATON_INLINE int32_t LoadWord(const void* p) {
  int32_t word;
  __builtin_memcpy(&word, p, sizeof(word));
  return word;
}

// Whether side values of this kind are two starts of 16 bits: of the even pairs of inputs, which
// lie in the low bits, and of the odd ones.
constexpr bool StartsArePairs(SideKind kind, Precision precision) {
#if defined(BATON_ISA_AVX2) && !defined(BATON_ISA_AVX_VNNI)
  return precision == Precision::kFast &&
         (kind == SideKind::kMinus16A || kind == SideKind::kMinus32Halves);
#else
  static_cast<void>(kind);
  static_cast<void>(precision);
  return false;
#endif
}

#if defined(BATON_ISA_AVX512)

// 64 bytes: 4 inputs of 16 output rows, or what they are cut from.
struct u8x64 {
  __m512i v;
};
BATON_INLINE u8x64 LoadLine(const uint8_t* p) {
  return {_mm512_loadu_si512(p)};
}
template <int kBits>
BATON_INLINE u8x64 ShiftBits(u8x64 a) {  // right, or left by -kBits; bits cross byte borders
  if constexpr (kBits > 0) return {_mm512_srli_epi16(a.v, kBits)};
  if constexpr (kBits < 0) return {_mm512_slli_epi16(a.v, -kBits)};
  return a;
}
BATON_INLINE u8x64 And(u8x64 a, int mask) {
  return {_mm512_and_si512(a.v, _mm512_set1_epi8(static_cast<char>(mask)))};
}
BATON_INLINE u8x64 OrMasked(u8x64 a, u8x64 b, int mask) {  // a | (b & mask)
  return {_mm512_ternarylogic_epi32(a.v, b.v, _mm512_set1_epi8(static_cast<char>(mask)), 0xf8)};
}

BATON_INLINE i32x16 LoadUint8(const uint8_t* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
BATON_INLINE i32x16 LoadInt8(const uint8_t* p) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
BATON_INLINE i32x16 MaxInt(i32x16 a, i32x16 b) {
  return {_mm512_max_epi32(a.v, b.v)};
}
BATON_INLINE int32_t ReduceMaxInt(i32x16 a) {
  return _mm512_reduce_max_epi32(a.v);
}
BATON_INLINE int32_t ReduceAddInt(i32x16 a) {
  return _mm512_reduce_add_epi32(a.v);
}

template <Precision kPrecision>
BATON_INLINE void StoreCodes(uint8_t* p, i32x16 first, i32x16 second) {
  const auto store = [](uint8_t * to, __m512i a) __attribute__((always_inline)) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(a));
  };
  if constexpr (kPrecision == Precision::kFast) {
    store(p, first.v);
    store(p + 16, second.v);
  } else {
    const __m512i round = _mm512_set1_epi32(128);
    store(p, _mm512_srai_epi32(_mm512_add_epi32(first.v, round), 8));
    store(p + 16, _mm512_srai_epi32(_mm512_add_epi32(second.v, round), 8));
    store(p + 32, first.v);  // the low byte is lo, since hi took the carry
    store(p + 48, second.v);
  }
}

// The codes of a block.
struct CodeBlock {
  u8x64 group[kCodeGroups];
};
template <PanelType kType, Precision kPrecision>
BATON_INLINE void FinishCodes(CodeBlock&) {}

// Adds to each output row's sum its 4 codes times the 4 codes at `a`. In assembly, since GCC 12
// would load those into a register first: half as many instructions again.
BATON_INLINE __m512i MulAdd(__m512i sum, u8x64 codes, const uint8_t* a) {
  asm("vpdpbusd %2%{1to16%}, %1, %0"
      : "+v"(sum)
      : "v"(codes.v), "m"(*reinterpret_cast<const uint8_t(*)[4]>(a)));
  return sum;
}

// sums[r] = start[r * stride] + (codes of groups kFirst..) . (activation codes of row r); start
// counts only in types with an offset, where it takes the offset out.
template <PanelType kType, Precision kPrecision, int kRows, int kFirst, int kCount>
BATON_INLINE void Dot(const CodeBlock& codes, const uint8_t* activations, const uint32_t* start,
                      int stride, i32x16* sums) {
  constexpr int kBytes = ActivationBytes(kPrecision);
  constexpr int kLow = kPrecision == Precision::kFast ? 0 : 32;
  __m512i low[kRows];
  __m512i high[kRows];
  BATON_UNROLL
  for (int r = 0; r < kRows; ++r) {
    low[r] = FormatOf(kType).offset != 0 ? _mm512_set1_epi32(static_cast<int>(start[r * stride]))
                                         : _mm512_setzero_si512();
    high[r] = _mm512_setzero_si512();
  }
  BATON_UNROLL
  for (int g = kFirst; g < kFirst + kCount; ++g) {
    BATON_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const uint8_t* a = activations + r * kBytes + 4 * g;
      low[r] = MulAdd(low[r], codes.group[g], a + kLow);
      if constexpr (kPrecision == Precision::kExact) high[r] = MulAdd(high[r], codes.group[g], a);
    }
  }
  BATON_UNROLL
  for (int r = 0; r < kRows; ++r) {
    if constexpr (kPrecision == Precision::kExact) {
      low[r] = _mm512_add_epi32(low[r], _mm512_slli_epi32(high[r], 8));
    }
    sums[r] = {low[r]};
  }
}

#elif defined(BATON_ISA_AVX2)

struct u8x64 {
  __m256i lo, hi;
};
BATON_INLINE __m256i Load32(const uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
BATON_INLINE __m128i Load8(const uint8_t* p) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
}
BATON_INLINE u8x64 LoadLine(const uint8_t* p) {
  return {Load32(p), Load32(p + 32)};
}
template <int kBits>
BATON_INLINE u8x64 ShiftBits(u8x64 a) {
  if constexpr (kBits > 0) return {_mm256_srli_epi16(a.lo, kBits), _mm256_srli_epi16(a.hi, kBits)};
  if constexpr (kBits < 0) {
    return {_mm256_slli_epi16(a.lo, -kBits), _mm256_slli_epi16(a.hi, -kBits)};
  }
  return a;
}
BATON_INLINE u8x64 And(u8x64 a, int mask) {
  const __m256i m = _mm256_set1_epi8(static_cast<char>(mask));
  return {_mm256_and_si256(a.lo, m), _mm256_and_si256(a.hi, m)};
}
BATON_INLINE u8x64 OrMasked(u8x64 a, u8x64 b, int mask) {
  const u8x64 masked = And(b, mask);
  return {_mm256_or_si256(a.lo, masked.lo), _mm256_or_si256(a.hi, masked.hi)};
}

BATON_INLINE i32x16 LoadUint8(const uint8_t* p) {
  return {_mm256_cvtepu8_epi32(Load8(p)), _mm256_cvtepu8_epi32(Load8(p + 8))};
}
BATON_INLINE i32x16 LoadInt8(const uint8_t* p) {
  return {_mm256_cvtepi8_epi32(Load8(p)), _mm256_cvtepi8_epi32(Load8(p + 8))};
}
BATON_INLINE i32x16 MaxInt(i32x16 a, i32x16 b) {
  return {_mm256_max_epi32(a.lo, b.lo), _mm256_max_epi32(a.hi, b.hi)};
}
BATON_INLINE int32_t ReduceMaxInt(i32x16 a) {
  const __m256i m8 = _mm256_max_epi32(a.lo, a.hi);
  __m128i m = _mm_max_epi32(_mm256_castsi256_si128(m8), _mm256_extracti128_si256(m8, 1));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
  return _mm_cvtsi128_si32(m);
}
BATON_INLINE int32_t ReduceAddInt(i32x16 a) {
  const __m256i s8 = _mm256_add_epi32(a.lo, a.hi);
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(s8), _mm256_extracti128_si256(s8, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
  return _mm_cvtsi128_si32(s);
}

// The sums of the lanes i with i % 4 < 2 and of the others, times a factor, in 16 bits each.
BATON_INLINE uint32_t PairStarts(i32x16 a, int16_t factor) {
  const __m256i s8 = _mm256_add_epi32(a.lo, a.hi);
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(s8), _mm256_extracti128_si256(s8, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
  s = _mm_mullo_epi16(s, _mm_set1_epi16(factor));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_blend_epi16(s, _mm_bsrli_si128(s, 6), 2)));
}

// Sixteen 32-bit integers as two vectors of 16-bit ones, in order.
BATON_INLINE __m256i Narrow(i32x16 a) {
  return _mm256_permute4x64_epi64(_mm256_packs_epi32(a.lo, a.hi), 0xd8);
}
#if defined(BATON_ISA_AVX_VNNI)

// Thirty-two 32-bit integers that fit 8 bits, in order.
BATON_INLINE void StoreBytes(uint8_t* p, i32x16 first, i32x16 second) {
  const __m256i bytes = _mm256_packs_epi16(Narrow(first), Narrow(second));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(bytes, 0xd8));
}
BATON_INLINE i32x16 HighByte(i32x16 a) {  // (a + 128) / 256, rounded down
  const __m256i round = _mm256_set1_epi32(128);
  return {_mm256_srai_epi32(_mm256_add_epi32(a.lo, round), 8),
          _mm256_srai_epi32(_mm256_add_epi32(a.hi, round), 8)};
}
BATON_INLINE i32x16 LowByte(i32x16 a, i32x16 high) {  // a - 256 high
  return {_mm256_sub_epi32(a.lo, _mm256_slli_epi32(high.lo, 8)),
          _mm256_sub_epi32(a.hi, _mm256_slli_epi32(high.hi, 8))};
}
template <Precision kPrecision>
BATON_INLINE void StoreCodes(uint8_t* p, i32x16 first, i32x16 second) {
  if constexpr (kPrecision == Precision::kFast) {
    StoreBytes(p, first, second);
  } else {
    const i32x16 high[2] = {HighByte(first), HighByte(second)};
    StoreBytes(p, high[0], high[1]);
    StoreBytes(p + 32, LowByte(first, high[0]), LowByte(second, high[1]));
  }
}

struct CodeBlock {
  u8x64 group[kCodeGroups];
};
template <PanelType kType, Precision kPrecision>
BATON_INLINE void FinishCodes(CodeBlock&) {}

// Adds to the sums the products of groups kFirst.. with the codes of each row at `activations`.
template <int kRows, int kStride, int kFirst, int kCount>
BATON_INLINE void AddProducts(const CodeBlock& codes, const uint8_t* activations, i32x16* sums) {
  BATON_UNROLL
  for (int g = kFirst; g < kFirst + kCount; ++g) {
    BATON_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const __m256i a = _mm256_set1_epi32(LoadWord(activations + r * kStride + 4 * g));
      sums[r].lo = _mm256_dpbusd_avx_epi32(sums[r].lo, codes.group[g].lo, a);
      sums[r].hi = _mm256_dpbusd_avx_epi32(sums[r].hi, codes.group[g].hi, a);
    }
  }
}

// As on AVX-512.
template <PanelType kType, Precision kPrecision, int kRows, int kFirst, int kCount>
BATON_INLINE void Dot(const CodeBlock& codes, const uint8_t* activations, const uint32_t* start,
                      int stride, i32x16* sums) {
  constexpr int kBytes = ActivationBytes(kPrecision);
  constexpr bool kExact = kPrecision == Precision::kExact;
  BATON_UNROLL
  for (int r = 0; r < kRows; ++r) sums[r] = SetInt1(0);
  if constexpr (kExact) {
    AddProducts<kRows, kBytes, kFirst, kCount>(codes, activations, sums);
    BATON_UNROLL
    for (int r = 0; r < kRows; ++r) {
      sums[r] = {_mm256_slli_epi32(sums[r].lo, 8), _mm256_slli_epi32(sums[r].hi, 8)};
    }
  }
  if constexpr (FormatOf(kType).offset != 0) {
    BATON_UNROLL
    for (int r = 0; r < kRows; ++r) {
      sums[r] = AddInt(sums[r], SetInt1(static_cast<int32_t>(start[r * stride])));
    }
  }
  AddProducts<kRows, kBytes, kFirst, kCount>(codes, activations + (kExact ? 32 : 0), sums);
}

#else  // AVX2 alone

template <Precision kPrecision>
BATON_INLINE void StoreCodes(uint8_t* p, i32x16 first, i32x16 second) {
  const __m256i a = Narrow(first);
  const __m256i b = Narrow(second);
  if constexpr (kPrecision == Precision::kFast) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm256_permute4x64_epi64(_mm256_packs_epi16(a, b), 0xd8));
  } else {
    const __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15, 0,
                                           1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_shuffle_epi8(a, order));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), _mm256_shuffle_epi8(b, order));
  }
}

struct CodeBlock {
  u8x64 group[kCodeGroups];
};
// Q8_0 under kFast: from q + 128 to q.
template <PanelType kType, Precision kPrecision>
BATON_INLINE void FinishCodes(CodeBlock& codes) {
  if constexpr (kType == PanelType::kQ8_0 && kPrecision == Precision::kFast) {
    const __m256i flip = _mm256_set1_epi8(static_cast<char>(0x80));
    BATON_UNROLL
    for (int g = 0; g < kCodeGroups; ++g) {
      codes.group[g] = {_mm256_xor_si256(codes.group[g].lo, flip),
                        _mm256_xor_si256(codes.group[g].hi, flip)};
    }
  }
}

// Products of one group's codes with the codes of one row, pairs added, in 16 bits.
template <PanelType kType>
BATON_INLINE __m256i MulPairs(__m256i codes, __m256i a) {
  if constexpr (kType == PanelType::kQ8_0) {
    return _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(a, codes));
  }
  return _mm256_maddubs_epi16(codes, a);
}

// Holds the compiler to this place in the order of instructions: GCC 12 would load the rows' codes
// of all groups first and spill them.
BATON_INLINE void Pin(u8x64& a) {
  asm volatile("" : "+x"(a.lo), "+x"(a.hi));
}

template <PanelType kType, int kRows, int kFirst, int kCount>
BATON_INLINE void DotFast(const CodeBlock& codes, const uint8_t* activations, const uint32_t* start,
                          int stride, i32x16* sums) {
  constexpr PanelFormat kFormat = FormatOf(kType);
  constexpr bool kPairs = StartsArePairs(kFormat.side, Precision::kFast);
  // Groups whose products fit into 16 bits: a lane takes two products of each.
  constexpr int kLargest = kPairs ? kFormat.offset : kFormat.max_code();
  static_assert(!kPairs || 2 * kFormat.offset == kFormat.max_code() + 1);
  constexpr int kFit = 32767 / (2 * 127 * kLargest);
  static_assert(!kPairs || kFit >= kCount);
  constexpr int kRun = kType == PanelType::kQ8_0 ? 1 : kFit < kCount ? kFit : kCount;
  static_assert(kRun >= 1 && kCount % kRun == 0);
  const __m256i ones = _mm256_set1_epi16(1);
  BATON_UNROLL
  for (int run = kFirst; run < kFirst + kCount; run += kRun) {
    u8x64 narrow[kRows];
    BATON_UNROLL
    for (int g = run; g < run + kRun; ++g) {
      const u8x64 group = codes.group[g];
      BATON_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const __m256i a = _mm256_set1_epi32(LoadWord(activations + r * 32 + 4 * g));
        const u8x64 products = {MulPairs<kType>(group.lo, a), MulPairs<kType>(group.hi, a)};
        if (g == run && !kPairs) {
          narrow[r] = products;
        } else {
          if (g == run)
            narrow[r].lo = narrow[r].hi = _mm256_set1_epi32(LoadWord(start + r * stride));
          narrow[r].lo = _mm256_add_epi16(narrow[r].lo, products.lo);
          narrow[r].hi = _mm256_add_epi16(narrow[r].hi, products.hi);
        }
        Pin(narrow[r]);
      }
    }
    BATON_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const i32x16 wide = {_mm256_madd_epi16(narrow[r].lo, ones),
                           _mm256_madd_epi16(narrow[r].hi, ones)};
      sums[r] = run == kFirst ? wide : AddInt(sums[r], wide);
    }
  }
}

template <int kRows, int kFirst, int kCount>
BATON_INLINE void DotExact(const CodeBlock& codes, const uint8_t* activations, i32x16* sums) {
  const __m256i even_bytes = _mm256_set1_epi16(0xff);
  u8x64 wide[kRows];
  BATON_UNROLL
  for (int r = 0; r < kRows; ++r) wide[r] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
  BATON_UNROLL
  for (int g = kFirst; g < kFirst + kCount; ++g) {
    BATON_UNROLL
    for (int odd = 0; odd < 2; ++odd) {
      u8x64 half;
      if (odd == 0) {
        half = {_mm256_and_si256(codes.group[g].lo, even_bytes),
                _mm256_and_si256(codes.group[g].hi, even_bytes)};
      } else {
        half = ShiftBits<8>(codes.group[g]);
      }
      BATON_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const __m256i a = _mm256_set1_epi32(LoadWord(activations + r * 64 + 8 * g + 4 * odd));
        wide[r].lo = _mm256_add_epi32(wide[r].lo, _mm256_madd_epi16(half.lo, a));
        wide[r].hi = _mm256_add_epi32(wide[r].hi, _mm256_madd_epi16(half.hi, a));
        Pin(wide[r]);
      }
    }
  }
  BATON_UNROLL
  for (int r = 0; r < kRows; ++r) sums[r] = {wide[r].lo, wide[r].hi};
}

template <PanelType kType, Precision kPrecision, int kRows, int kFirst, int kCount>
BATON_INLINE void Dot(const CodeBlock& codes, const uint8_t* activations, const uint32_t* start,
                      int stride, i32x16* sums) {
  if constexpr (kPrecision == Precision::kFast) {
    DotFast<kType, kRows, kFirst, kCount>(codes, activations, start, stride, sums);
  } else {
    DotExact<kRows, kFirst, kCount>(codes, activations, sums);
  }
  // Q8_0 under kFast has its sign already, other types have started there.
  constexpr bool kStart = FormatOf(kType).offset != 0 &&
                          !(kType == PanelType::kQ8_0 && kPrecision == Precision::kFast) &&
                          !StartsArePairs(FormatOf(kType).side, kPrecision);
  if constexpr (kStart) {
    BATON_UNROLL
    for (int r = 0; r < kRows; ++r) {
      sums[r] = AddInt(sums[r], SetInt1(static_cast<int32_t>(start[r * stride])));
    }
  }
}

#endif  // AVX-VNNI

#else  // portable

struct u8x64 {
  uint8_t v[kLineBytes];
};
BATON_INLINE u8x64 LoadLine(const uint8_t* p) {
  u8x64 a;
  for (int i = 0; i < kLineBytes; ++i) a.v[i] = p[i];
  return a;
}
template <int kBits>
BATON_INLINE u8x64 ShiftBits(u8x64 a) {
  for (int i = 0; i < kLineBytes; ++i) {
    const unsigned x = a.v[i];
    if constexpr (kBits > 0) a.v[i] = static_cast<uint8_t>(x >> kBits);
    if constexpr (kBits < 0) a.v[i] = static_cast<uint8_t>(x << -kBits);
  }
  return a;
}
BATON_INLINE u8x64 And(u8x64 a, int mask) {
  for (int i = 0; i < kLineBytes; ++i) a.v[i] = static_cast<uint8_t>(a.v[i] & mask);
  return a;
}
BATON_INLINE u8x64 OrMasked(u8x64 a, u8x64 b, int mask) {
  for (int i = 0; i < kLineBytes; ++i) {
    a.v[i] = static_cast<uint8_t>(a.v[i] | (b.v[i] & mask));
  }
  return a;
}

BATON_INLINE i32x16 LoadUint8(const uint8_t* p) {
  i32x16 r;
  BATON_EACH_LANE r.v[i] = p[i];
  return r;
}
BATON_INLINE i32x16 LoadInt8(const uint8_t* p) {
  i32x16 r;
  BATON_EACH_LANE r.v[i] = static_cast<int8_t>(p[i]);
  return r;
}
BATON_INLINE i32x16 MaxInt(i32x16 a, i32x16 b) {
  BATON_EACH_LANE a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
  return a;
}
BATON_INLINE int32_t ReduceMaxInt(i32x16 a) {
  int32_t most = a.v[0];
  for (int i = 1; i < kLanes; ++i) most = most > a.v[i] ? most : a.v[i];
  return most;
}
BATON_INLINE int32_t ReduceAddInt(i32x16 a) {
  int32_t sum = 0;
  BATON_EACH_LANE sum += a.v[i];
  return sum;
}

template <Precision kPrecision>
BATON_INLINE void StoreCodes(uint8_t* p, i32x16 first, i32x16 second) {
  BATON_EACH_LANE {
    if constexpr (kPrecision == Precision::kFast) {
      p[i] = static_cast<uint8_t>(first.v[i]);
      p[16 + i] = static_cast<uint8_t>(second.v[i]);
    } else {
      const int16_t a = static_cast<int16_t>(first.v[i]);
      const int16_t b = static_cast<int16_t>(second.v[i]);
      __builtin_memcpy(p + 2 * i, &a, 2);
      __builtin_memcpy(p + 32 + 2 * i, &b, 2);
    }
  }
}

// Besides the codes as they come: [input][output row], wide enough to multiply.
struct CodeBlock {
  u8x64 group[kCodeGroups];
  int16_t input[kInputBlock][kLanes];
};
template <PanelType kType, Precision kPrecision>
BATON_INLINE void FinishCodes(CodeBlock& codes) {
  for (int k = 0; k < kInputBlock; ++k) {
    BATON_EACH_LANE codes.input[k][i] = codes.group[k / 4].v[4 * i + k % 4];
  }
}

template <PanelType kType, Precision kPrecision, int kRows, int kFirst, int kCount>
BATON_INLINE void Dot(const CodeBlock& codes, const uint8_t* activations, const uint32_t* start,
                      int stride, i32x16* sums) {
  for (int r = 0; r < kRows; ++r) {
    const uint8_t* row = activations + r * ActivationBytes(kPrecision);
    i32x16 sum = SetInt1(FormatOf(kType).offset != 0 ? static_cast<int32_t>(start[r * stride]) : 0);
    for (int k = 4 * kFirst; k < 4 * (kFirst + kCount); ++k) {
      int16_t a;
      if constexpr (kPrecision == Precision::kFast) {
        a = static_cast<int8_t>(row[k]);
      } else {
        __builtin_memcpy(&a, row + 2 * k, 2);
      }
      BATON_EACH_LANE sum.v[i] += static_cast<int32_t>(codes.input[k][i]) * a;
    }
    sums[r] = sum;
  }
}

#endif

}  // namespace baton::BATON_ISA
