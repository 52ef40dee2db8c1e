// The floating-point mode in which every thread computes.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace baton {

// Puts the calling thread into the computing mode for its lifetime: results too small for a normal
// number become zero, so do such inputs (FTZ/DAZ), rounding is to nearest even, no traps. The mode
// found before is restored at the end, whatever it was.
// A denormal costs a hundred cycles on some CPUs and none on others; flushing makes speed and bits
// equal (docs/numerics.md).
// Threads: acts on the thread that constructs it and must be destroyed there.
class ScopedFlushDenormals {
 public:
#if defined(__x86_64__)
  ScopedFlushDenormals() : saved_(_mm_getcsr()) {
    _mm_setcsr(kMode);
  }
  ~ScopedFlushDenormals() {
    _mm_setcsr(saved_);
  }
#elif defined(__aarch64__)
  ScopedFlushDenormals() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("msr fpcr, %0" : : "r"(kMode));
  }
  ~ScopedFlushDenormals() {
    asm volatile("msr fpcr, %0" : : "r"(saved_));
  }
#else
#error "no flushing of denormals for this CPU: without it results would not be those of the others"
#endif
  ScopedFlushDenormals(const ScopedFlushDenormals&) = delete;
  ScopedFlushDenormals& operator=(const ScopedFlushDenormals&) = delete;

 private:
#if defined(__x86_64__)
  // All exceptions masked (0x1F80), flush to zero (0x8000), denormals are zero (0x0040).
  static constexpr uint32_t kMode = 0x9FC0;
  uint32_t saved_;
#elif defined(__aarch64__)
  // FZ. Nothing else: nearest even, no traps.
  static constexpr uint64_t kMode = uint64_t{1} << 24;
  uint64_t saved_;
#endif
};

}  // namespace baton
