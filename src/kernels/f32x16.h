// Sixteen lanes everywhere: the vector type that all float kernels are written on.
//
// One register of AVX-512, two of AVX2 (with or without AVX-VNNI), an array in the portable build.
// Every operation is exactly rounded and gives the same bits in all three (docs/numerics.md).
// Included only by *_isa.cc files, which are compiled once per instruction set; everything here is
// forced inline, so that no copy compiled for one instruction set can be linked into another's
// code.
#pragma once

#include <cstdint>

#if defined(BATON_ISA_AVX512)
#include <immintrin.h>
#define BATON_ISA avx512
#elif defined(BATON_ISA_AVX_VNNI)
#include <immintrin.h>
#define BATON_ISA avx_vnni
#define BATON_ISA_AVX2  // and all that it has
#elif defined(BATON_ISA_AVX2)
#include <immintrin.h>
#define BATON_ISA avx2
#elif defined(BATON_ISA_PORTABLE)
#define BATON_ISA portable
#else
#error "f32x16.h belongs into *_isa.cc files only, which are compiled once per instruction set"
#endif

#define BATON_INLINE [[gnu::always_inline]] inline

namespace baton::BATON_ISA {

inline constexpr int kLanes = 16;

#if defined(BATON_ISA_AVX512)

struct f32x16 {
  __m512 v;
};
struct i32x16 {
  __m512i v;
};

BATON_INLINE f32x16 Zero() {
  return {_mm512_setzero_ps()};
}
BATON_INLINE f32x16 Set1(float x) {
  return {_mm512_set1_ps(x)};
}
BATON_INLINE f32x16 Load(const float* p) {
  return {_mm512_loadu_ps(p)};
}
BATON_INLINE void Store(float* p, f32x16 a) {
  _mm512_storeu_ps(p, a.v);
}
// Lanes at and beyond n read as +0; their memory is not touched.
BATON_INLINE f32x16 LoadPartial(const float* p, int n) {
  return {_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1u), p)};
}
BATON_INLINE void StorePartial(float* p, f32x16 a, int n) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1u), a.v);
}
BATON_INLINE f32x16 LoadHalf(const uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
BATON_INLINE void StoreHalf(uint16_t* p, f32x16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
BATON_INLINE f32x16 LoadBfloat16(const uint16_t* p) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(
      _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16))};
}
BATON_INLINE f32x16 Add(f32x16 a, f32x16 b) {
  return {_mm512_add_ps(a.v, b.v)};
}
BATON_INLINE f32x16 Sub(f32x16 a, f32x16 b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
BATON_INLINE f32x16 Mul(f32x16 a, f32x16 b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
BATON_INLINE f32x16 Div(f32x16 a, f32x16 b) {
  return {_mm512_div_ps(a.v, b.v)};
}
BATON_INLINE f32x16 Sqrt(f32x16 a) {
  return {_mm512_sqrt_ps(a.v)};
}
// a * b + c, rounded once.
BATON_INLINE f32x16 Fma(f32x16 a, f32x16 b, f32x16 c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
// a > b ? a : b, so b where either is NaN.
BATON_INLINE f32x16 Max(f32x16 a, f32x16 b) {
  return {_mm512_max_ps(a.v, b.v)};
}
// a < b ? a : b, so b where either is NaN.
BATON_INLINE f32x16 Min(f32x16 a, f32x16 b) {
  return {_mm512_min_ps(a.v, b.v)};
}
BATON_INLINE f32x16 Abs(f32x16 a) {
  return {_mm512_abs_ps(a.v)};
}
// Lanes below n from a, the others from b.
BATON_INLINE f32x16 SelectBelow(int n, f32x16 a, f32x16 b) {
  return {_mm512_mask_blend_ps(static_cast<__mmask16>((1u << n) - 1u), b.v, a.v)};
}
// a > b ? c : d by lanes (d where either of a, b is NaN).
BATON_INLINE f32x16 SelectGreater(f32x16 a, f32x16 b, f32x16 c, f32x16 d) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ), d.v, c.v)};
}
// To the nearest integer, ties to even. Requires: |a| < 2^31.
BATON_INLINE i32x16 RoundToInt(f32x16 a) {
  return {_mm512_cvtps_epi32(a.v)};
}
BATON_INLINE f32x16 ToFloat(i32x16 a) {
  return {_mm512_cvtepi32_ps(a.v)};
}
BATON_INLINE i32x16 SetInt1(int32_t x) {
  return {_mm512_set1_epi32(x)};
}
BATON_INLINE i32x16 LoadInt(const int32_t* p) {
  return {_mm512_loadu_si512(p)};
}
BATON_INLINE void StoreInt(int32_t* p, i32x16 a) {
  _mm512_storeu_si512(p, a.v);
}
BATON_INLINE i32x16 AddInt(i32x16 a, i32x16 b) {
  return {_mm512_add_epi32(a.v, b.v)};
}
BATON_INLINE i32x16 SubInt(i32x16 a, i32x16 b) {
  return {_mm512_sub_epi32(a.v, b.v)};
}
template <int kBits>
BATON_INLINE i32x16 ShiftLeft(i32x16 a) {
  return {_mm512_slli_epi32(a.v, kBits)};
}
// The same 32 bits under the other type.
BATON_INLINE i32x16 AsInt(f32x16 a) {
  return {_mm512_castps_si512(a.v)};
}
BATON_INLINE f32x16 AsFloat(i32x16 a) {
  return {_mm512_castsi512_ps(a.v)};
}

#elif defined(BATON_ISA_AVX2)

struct f32x16 {
  __m256 lo, hi;
};
struct i32x16 {
  __m256i lo, hi;
};

BATON_INLINE __m256i LanesBelow(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
BATON_INLINE f32x16 Zero() {
  return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}
BATON_INLINE f32x16 Set1(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
BATON_INLINE f32x16 Load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
BATON_INLINE void Store(float* p, f32x16 a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
// Lanes at and beyond n read as +0; their memory is not touched.
BATON_INLINE f32x16 LoadPartial(const float* p, int n) {
  return {_mm256_maskload_ps(p, LanesBelow(n)),
          n > 8 ? _mm256_maskload_ps(p + 8, LanesBelow(n - 8)) : _mm256_setzero_ps()};
}
BATON_INLINE void StorePartial(float* p, f32x16 a, int n) {
  _mm256_maskstore_ps(p, LanesBelow(n), a.lo);
  if (n > 8) _mm256_maskstore_ps(p + 8, LanesBelow(n - 8), a.hi);
}
BATON_INLINE f32x16 LoadHalf(const uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
BATON_INLINE void StoreHalf(uint16_t* p, f32x16 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8),
                   _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
BATON_INLINE __m256 WidenBfloat16(__m128i half) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}
BATON_INLINE f32x16 LoadBfloat16(const uint16_t* p) {
  return {WidenBfloat16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          WidenBfloat16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
BATON_INLINE f32x16 Add(f32x16 a, f32x16 b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
BATON_INLINE f32x16 Sub(f32x16 a, f32x16 b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
BATON_INLINE f32x16 Mul(f32x16 a, f32x16 b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
BATON_INLINE f32x16 Div(f32x16 a, f32x16 b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
BATON_INLINE f32x16 Sqrt(f32x16 a) {
  return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)};
}
// a * b + c, rounded once.
BATON_INLINE f32x16 Fma(f32x16 a, f32x16 b, f32x16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
// a > b ? a : b, so b where either is NaN.
BATON_INLINE f32x16 Max(f32x16 a, f32x16 b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
// a < b ? a : b, so b where either is NaN.
BATON_INLINE f32x16 Min(f32x16 a, f32x16 b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
BATON_INLINE f32x16 Abs(f32x16 a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
// Lanes below n from a, the others from b.
BATON_INLINE f32x16 SelectBelow(int n, f32x16 a, f32x16 b) {
  return {_mm256_blendv_ps(b.lo, a.lo, _mm256_castsi256_ps(LanesBelow(n))),
          _mm256_blendv_ps(b.hi, a.hi, _mm256_castsi256_ps(LanesBelow(n - 8)))};
}
// a > b ? c : d by lanes (d where either of a, b is NaN).
BATON_INLINE f32x16 SelectGreater(f32x16 a, f32x16 b, f32x16 c, f32x16 d) {
  return {_mm256_blendv_ps(d.lo, c.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_GT_OQ)),
          _mm256_blendv_ps(d.hi, c.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_GT_OQ))};
}
// To the nearest integer, ties to even. Requires: |a| < 2^31.
BATON_INLINE i32x16 RoundToInt(f32x16 a) {
  return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)};
}
BATON_INLINE f32x16 ToFloat(i32x16 a) {
  return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)};
}
BATON_INLINE i32x16 SetInt1(int32_t x) {
  return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
BATON_INLINE i32x16 LoadInt(const int32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8))};
}
BATON_INLINE void StoreInt(int32_t* p, i32x16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), a.hi);
}
BATON_INLINE i32x16 AddInt(i32x16 a, i32x16 b) {
  return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
BATON_INLINE i32x16 SubInt(i32x16 a, i32x16 b) {
  return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
}
template <int kBits>
BATON_INLINE i32x16 ShiftLeft(i32x16 a) {
  return {_mm256_slli_epi32(a.lo, kBits), _mm256_slli_epi32(a.hi, kBits)};
}
// The same 32 bits under the other type.
BATON_INLINE i32x16 AsInt(f32x16 a) {
  return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)};
}
BATON_INLINE f32x16 AsFloat(i32x16 a) {
  return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)};
}

#else  // portable

struct f32x16 {
  float v[kLanes];
};
struct i32x16 {
  int32_t v[kLanes];
};

BATON_INLINE uint32_t BitsOf(float x) {
  return __builtin_bit_cast(uint32_t, x);
}
BATON_INLINE float FloatOf(uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

// The value of a binary16, exactly; a quiet NaN for a NaN.
BATON_INLINE float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t fraction = half & 0x3ffu;
  if (exponent == 0) {
    // The fraction counts units of 2^-24; the product is exact, and so normal or zero.
    const float magnitude = static_cast<float>(static_cast<int32_t>(fraction)) * 0x1p-24f;
    return FloatOf(BitsOf(magnitude) | sign);
  }
  if (exponent == 31) {
    return FloatOf(sign | 0x7f800000u | (fraction << 13) | (fraction != 0 ? 0x00400000u : 0u));
  }
  return FloatOf(sign | ((exponent + 112u) << 23) | (fraction << 13));
}

// To binary16, to the nearest, ties to even; a quiet NaN for a NaN.
BATON_INLINE uint16_t FloatToHalf(float x) {
  const uint32_t bits = BitsOf(x);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= 0x477ff000u) {  // rounds to 2^16 or more
    half = 0x7c00u;
  } else if (magnitude >= 0x38800000u) {  // a normal binary16
    half = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  } else if (magnitude >= 0x33000000u) {  // a subnormal one, or 2^-25, which ties to 0
    const uint32_t shift = 126u - (magnitude >> 23);
    const uint32_t fraction = (magnitude & 0x7fffffu) | 0x800000u;
    const uint32_t kept = fraction >> shift;
    const uint32_t rest = fraction & ((1u << shift) - 1u);
    const uint32_t tie = 1u << (shift - 1u);
    half = kept + ((rest > tie || (rest == tie && (kept & 1u) != 0)) ? 1u : 0u);
  } else {
    half = 0;
  }
  return static_cast<uint16_t>(sign | half);
}

#define BATON_EACH_LANE for (int i = 0; i < kLanes; ++i)

BATON_INLINE f32x16 Set1(float x) {
  f32x16 r;
  BATON_EACH_LANE r.v[i] = x;
  return r;
}
BATON_INLINE f32x16 Zero() {
  return Set1(0.0f);
}
BATON_INLINE f32x16 Load(const float* p) {
  f32x16 r;
  BATON_EACH_LANE r.v[i] = p[i];
  return r;
}
BATON_INLINE void Store(float* p, f32x16 a) {
  BATON_EACH_LANE p[i] = a.v[i];
}
// Lanes at and beyond n read as +0; their memory is not touched.
BATON_INLINE f32x16 LoadPartial(const float* p, int n) {
  f32x16 r;
  BATON_EACH_LANE r.v[i] = i < n ? p[i] : 0.0f;
  return r;
}
BATON_INLINE void StorePartial(float* p, f32x16 a, int n) {
  for (int i = 0; i < n; ++i) p[i] = a.v[i];
}
BATON_INLINE f32x16 LoadHalf(const uint16_t* p) {
  f32x16 r;
  BATON_EACH_LANE r.v[i] = HalfToFloat(p[i]);
  return r;
}
BATON_INLINE void StoreHalf(uint16_t* p, f32x16 a) {
  BATON_EACH_LANE p[i] = FloatToHalf(a.v[i]);
}
BATON_INLINE f32x16 LoadBfloat16(const uint16_t* p) {
  f32x16 r;
  BATON_EACH_LANE r.v[i] = FloatOf(static_cast<uint32_t>(p[i]) << 16);
  return r;
}
BATON_INLINE f32x16 Add(f32x16 a, f32x16 b) {
  BATON_EACH_LANE a.v[i] = a.v[i] + b.v[i];
  return a;
}
BATON_INLINE f32x16 Sub(f32x16 a, f32x16 b) {
  BATON_EACH_LANE a.v[i] = a.v[i] - b.v[i];
  return a;
}
BATON_INLINE f32x16 Mul(f32x16 a, f32x16 b) {
  BATON_EACH_LANE a.v[i] = a.v[i] * b.v[i];
  return a;
}
BATON_INLINE f32x16 Div(f32x16 a, f32x16 b) {
  BATON_EACH_LANE a.v[i] = a.v[i] / b.v[i];
  return a;
}
BATON_INLINE f32x16 Sqrt(f32x16 a) {
  BATON_EACH_LANE a.v[i] = __builtin_sqrtf(a.v[i]);
  return a;
}
// a * b + c, rounded once.
BATON_INLINE f32x16 Fma(f32x16 a, f32x16 b, f32x16 c) {
  BATON_EACH_LANE a.v[i] = __builtin_fmaf(a.v[i], b.v[i], c.v[i]);
  return a;
}
// a > b ? a : b, so b where either is NaN.
BATON_INLINE f32x16 Max(f32x16 a, f32x16 b) {
  BATON_EACH_LANE a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
  return a;
}
// a < b ? a : b, so b where either is NaN.
BATON_INLINE f32x16 Min(f32x16 a, f32x16 b) {
  BATON_EACH_LANE a.v[i] = a.v[i] < b.v[i] ? a.v[i] : b.v[i];
  return a;
}
BATON_INLINE f32x16 Abs(f32x16 a) {
  BATON_EACH_LANE a.v[i] = FloatOf(BitsOf(a.v[i]) & 0x7fffffffu);
  return a;
}
// Lanes below n from a, the others from b.
BATON_INLINE f32x16 SelectBelow(int n, f32x16 a, f32x16 b) {
  BATON_EACH_LANE a.v[i] = i < n ? a.v[i] : b.v[i];
  return a;
}
// a > b ? c : d by lanes (d where either of a, b is NaN).
BATON_INLINE f32x16 SelectGreater(f32x16 a, f32x16 b, f32x16 c, f32x16 d) {
  BATON_EACH_LANE a.v[i] = a.v[i] > b.v[i] ? c.v[i] : d.v[i];
  return a;
}
// To the nearest integer, ties to even. Requires: |a| < 2^31.
BATON_INLINE i32x16 RoundToInt(f32x16 a) {
  i32x16 r;
  BATON_EACH_LANE r.v[i] = static_cast<int32_t>(__builtin_lrintf(a.v[i]));
  return r;
}
BATON_INLINE f32x16 ToFloat(i32x16 a) {
  f32x16 r;
  BATON_EACH_LANE r.v[i] = static_cast<float>(a.v[i]);
  return r;
}
BATON_INLINE i32x16 SetInt1(int32_t x) {
  i32x16 r;
  BATON_EACH_LANE r.v[i] = x;
  return r;
}
BATON_INLINE i32x16 LoadInt(const int32_t* p) {
  i32x16 r;
  BATON_EACH_LANE r.v[i] = p[i];
  return r;
}
BATON_INLINE void StoreInt(int32_t* p, i32x16 a) {
  BATON_EACH_LANE p[i] = a.v[i];
}
BATON_INLINE i32x16 AddInt(i32x16 a, i32x16 b) {
  BATON_EACH_LANE a.v[i] =
      static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) + static_cast<uint32_t>(b.v[i]));
  return a;
}
BATON_INLINE i32x16 SubInt(i32x16 a, i32x16 b) {
  BATON_EACH_LANE a.v[i] =
      static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) - static_cast<uint32_t>(b.v[i]));
  return a;
}
template <int kBits>
BATON_INLINE i32x16 ShiftLeft(i32x16 a) {
  BATON_EACH_LANE a.v[i] = static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) << kBits);
  return a;
}
// The same 32 bits under the other type.
BATON_INLINE i32x16 AsInt(f32x16 a) {
  return __builtin_bit_cast(i32x16, a);
}
BATON_INLINE f32x16 AsFloat(i32x16 a) {
  return __builtin_bit_cast(f32x16, a);
}

#endif

// Half a vector: for what ends within one.
#if !defined(BATON_ISA_PORTABLE)

struct f32x8 {
  __m256 v;
};
BATON_INLINE f32x8 Zero8() {
  return {_mm256_setzero_ps()};
}
BATON_INLINE f32x8 Load8(const float* p) {
  return {_mm256_loadu_ps(p)};
}
BATON_INLINE void Store8(float* p, f32x8 a) {
  _mm256_storeu_ps(p, a.v);
}
BATON_INLINE __m256 LowHalf(f32x16 a) {
#if defined(BATON_ISA_AVX512)
  return _mm512_castps512_ps256(a.v);
#else
  return a.lo;
#endif
}
// x[0] * b + c, rounded once; x in all lanes.
BATON_INLINE f32x8 Fma8(f32x16 x, f32x8 b, f32x8 c) {
  return {_mm256_fmadd_ps(LowHalf(x), b.v, c.v)};
}

#else

struct f32x8 {
  float v[8];
};
BATON_INLINE f32x8 Load8(const float* p) {
  f32x8 r;
  for (int i = 0; i < 8; ++i) r.v[i] = p[i];
  return r;
}
BATON_INLINE f32x8 Zero8() {
  return f32x8{};
}
BATON_INLINE void Store8(float* p, f32x8 a) {
  for (int i = 0; i < 8; ++i) p[i] = a.v[i];
}
// x[0] * b + c, rounded once; x in all lanes.
BATON_INLINE f32x8 Fma8(f32x16 x, f32x8 b, f32x8 c) {
  for (int i = 0; i < 8; ++i) c.v[i] = __builtin_fmaf(x.v[0], b.v[i], c.v[i]);
  return c;
}

#endif

// The sum of the lanes by one fixed tree: lanes 8 apart, then 4, 2, 1.
BATON_INLINE float ReduceAdd(f32x16 a) {
  float v[kLanes];
  Store(v, a);
  for (int i = 0; i < 8; ++i) v[i] = v[i] + v[i + 8];
  for (int i = 0; i < 4; ++i) v[i] = v[i] + v[i + 4];
  return (v[0] + v[2]) + (v[1] + v[3]);
}

// The largest lane. Requires: no NaN.
BATON_INLINE float ReduceMax(f32x16 a) {
  float v[kLanes];
  Store(v, a);
  for (int i = 0; i < 8; ++i) v[i] = v[i] > v[i + 8] ? v[i] : v[i + 8];
  for (int i = 0; i < 4; ++i) v[i] = v[i] > v[i + 4] ? v[i] : v[i + 4];
  const float even = v[0] > v[2] ? v[0] : v[2];
  const float odd = v[1] > v[3] ? v[1] : v[3];
  return even > odd ? even : odd;
}

}  // namespace baton::BATON_ISA
