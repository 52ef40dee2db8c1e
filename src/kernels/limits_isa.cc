#include "kernels/f32x16.h"
#include "kernels/limits_ops.h"
#include "kernels/unroll.h"

namespace baton::BATON_ISA {
namespace {

#if defined(BATON_ISA_AVX512)

inline constexpr int kChains = 12;  // at once, in registers
struct Chain {
  __m512i v;
};
BATON_INLINE Chain MulAdd(Chain sum, Chain codes) {
  return {_mm512_dpbusd_epi32(sum.v, codes.v, codes.v)};
}
BATON_INLINE Chain Ones() {
  return {_mm512_set1_epi8(1)};
}
BATON_INLINE void Keep(Chain& a) {
  asm volatile("" : "+v"(a.v));
}
BATON_INLINE void Keep(f32x16& a) {
  asm volatile("" : "+v"(a.v));
}
BATON_INLINE Chain ReadLine(Chain sum, const uint8_t* p) {
  return {_mm512_or_si512(sum.v, _mm512_loadu_si512(p))};
}
BATON_INLINE int64_t Fold(Chain a) {
  return _mm512_reduce_add_epi32(a.v);
}

#elif defined(BATON_ISA_AVX2)

inline constexpr int kChains = 6;  // of two registers each
struct Chain {
  __m256i lo, hi;
};
#if defined(BATON_ISA_AVX_VNNI)
BATON_INLINE Chain MulAdd(Chain sum, Chain codes) {
  return {_mm256_dpbusd_avx_epi32(sum.lo, codes.lo, codes.lo),
          _mm256_dpbusd_avx_epi32(sum.hi, codes.hi, codes.hi)};
}
#else
BATON_INLINE Chain MulAdd(Chain sum, Chain codes) {
  return {_mm256_add_epi16(sum.lo, _mm256_maddubs_epi16(codes.lo, sum.lo)),
          _mm256_add_epi16(sum.hi, _mm256_maddubs_epi16(codes.hi, sum.hi))};
}
#endif
BATON_INLINE Chain Ones() {
  return {_mm256_set1_epi8(1), _mm256_set1_epi8(1)};
}
BATON_INLINE void Keep(Chain& a) {
  asm volatile("" : "+x"(a.lo), "+x"(a.hi));
}
BATON_INLINE void Keep(f32x16& a) {
  asm volatile("" : "+x"(a.lo), "+x"(a.hi));
}
BATON_INLINE Chain ReadLine(Chain sum, const uint8_t* p) {
  const __m256i* v = reinterpret_cast<const __m256i*>(p);
  return {_mm256_or_si256(sum.lo, _mm256_loadu_si256(v)),
          _mm256_or_si256(sum.hi, _mm256_loadu_si256(v + 1))};
}
BATON_INLINE int64_t Fold(Chain a) {
  return _mm256_extract_epi32(a.lo, 0) + _mm256_extract_epi32(a.hi, 0);
}

#else

inline constexpr int kChains = 2;
struct Chain {
  int32_t v[16];
};
BATON_INLINE Chain MulAdd(Chain sum, Chain codes) {
  for (int i = 0; i < 16; ++i) sum.v[i] = 4 * (sum.v[i] & 255) * codes.v[i];
  return sum;
}
BATON_INLINE Chain Ones() {
  Chain a;
  for (int i = 0; i < 16; ++i) a.v[i] = 1;
  return a;
}
BATON_INLINE void Keep(Chain& a) {
  asm volatile("" : "+m"(a));
}
BATON_INLINE void Keep(f32x16& a) {
  asm volatile("" : "+m"(a));
}
BATON_INLINE Chain ReadLine(Chain sum, const uint8_t* p) {
  Chain line;
  __builtin_memcpy(&line, p, sizeof(line));
  for (int i = 0; i < 16; ++i) sum.v[i] |= line.v[i];
  return sum;
}
BATON_INLINE int64_t Fold(Chain a) {
  return a.v[0];
}

#endif

[[gnu::noinline]] int64_t IntegerMacs(int64_t times) {
  Chain chains[kChains];
  Chain codes = Ones();
  Keep(codes);
  BATON_UNROLL
  for (int i = 0; i < kChains; ++i) {
    chains[i] = codes;
    Keep(chains[i]);
  }
  for (int64_t t = 0; t < times * (kLimitMacs / kChains); ++t) {
    BATON_UNROLL
    for (int i = 0; i < kChains; ++i) {
      chains[i] = MulAdd(chains[i], codes);
      Keep(chains[i]);
    }
  }
  int64_t sum = 0;
  BATON_UNROLL
  for (int i = 0; i < kChains; ++i) sum += Fold(chains[i]);
  return sum;
}

[[gnu::noinline]] float FloatMacs(int64_t times) {
  f32x16 chains[kChains];
  f32x16 factor = Set1(0.5f);
  Keep(factor);
  BATON_UNROLL
  for (int i = 0; i < kChains; ++i) {
    chains[i] = factor;
    Keep(chains[i]);
  }
  for (int64_t t = 0; t < times * (kLimitMacs / kChains); ++t) {
    BATON_UNROLL
    for (int i = 0; i < kChains; ++i) {
      chains[i] = Fma(chains[i], factor, factor);
      Keep(chains[i]);
    }
  }
  f32x16 sum = Zero();
  BATON_UNROLL
  for (int i = 0; i < kChains; ++i) sum = Add(sum, chains[i]);
  return ReduceAdd(sum);
}

[[gnu::noinline]] int64_t ReadBytes(const uint8_t* bytes, size_t size) {
  Chain sums[4] = {Ones(), Ones(), Ones(), Ones()};
  for (size_t i = 0; i + 512 <= size; i += 512) {
    BATON_UNROLL
    for (size_t line = 0; line < 8; ++line) {
      __builtin_prefetch(bytes + i + 64 * line + 8192, 0, 3);
      sums[line % 4] = ReadLine(sums[line % 4], bytes + i + 64 * line);
    }
  }
  return Fold(sums[0]) + Fold(sums[1]) + Fold(sums[2]) + Fold(sums[3]);
}

[[gnu::noinline]] int64_t ReadNearBytes(const uint8_t* bytes, size_t size, int64_t times) {
  Chain sums[4] = {Ones(), Ones(), Ones(), Ones()};
  for (int64_t t = 0; t < times; ++t) {
    for (size_t i = 0; i + 512 <= size; i += 512) {
      BATON_UNROLL
      for (size_t line = 0; line < 8; ++line) {
        sums[line % 4] = ReadLine(sums[line % 4], bytes + i + 64 * line);
      }
    }
    // What was read may have changed meanwhile, for all the compiler knows.
    asm volatile("" : : : "memory");
  }
  return Fold(sums[0]) + Fold(sums[1]) + Fold(sums[2]) + Fold(sums[3]);
}

}  // namespace

const LimitsOps kLimitsOps = {.integer_macs = IntegerMacs,
                              .float_macs = FloatMacs,
                              .read = ReadBytes,
                              .read_near = ReadNearBytes};

}  // namespace baton::BATON_ISA
