// What a core can do at most, measured: the yardstick of benchmarks. Functions of one instruction
// set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace baton {

// The limits of one instruction set. Each function does its work once and returns a value that
// depends on it, so that it cannot be left out.
struct LimitsOps {
  // Multiply-adds of 8-bit codes by the instructions that the kernels use, in registers only;
  // kIntegerMacs each time.
  int64_t (*integer_macs)(int64_t times);
  // Fused multiply-adds of binary32, in registers only; kFloatMacs each time.
  float (*float_macs)(int64_t times);
  // Reads `size` bytes, a multiple of 512, in order, as from memory: with prefetch.
  int64_t (*read)(const uint8_t* bytes, size_t size);
  // Reads them `times` times, as from a cache: without prefetch.
  int64_t (*read_near)(const uint8_t* bytes, size_t size, int64_t times);
};

inline constexpr int kLimitMacs = 12;  // 16-lane instructions each time
inline constexpr int64_t kIntegerMacs = kLimitMacs * 64;
inline constexpr int64_t kFloatMacs = kLimitMacs * 16;

namespace portable {
extern const LimitsOps kLimitsOps;
}
namespace avx2 {
extern const LimitsOps kLimitsOps;
}
namespace avx_vnni {
extern const LimitsOps kLimitsOps;
}
namespace avx512 {
extern const LimitsOps kLimitsOps;
}

}  // namespace baton
