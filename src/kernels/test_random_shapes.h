// For tests of kernels with random shapes: each runs on all instruction sets and is compared with
// its reference. A shape is a function of its number, which a failure prints. ./check runs a few of
// them, tests/nightly thousands, with instrumented kernels.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/isa.h"
#include "kernels/kernel_context.h"

namespace baton {

// What a shape is drawn from.
class Draw {
 public:
  explicit Draw(uint32_t seed) : random_(seed) {}
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint32_t>(high - low + 1));
  }
  bool Once(int in) { return Between(1, in) == 1; }
  // Of 1 .. high, small numbers as often as large ones.
  int64_t Size(int64_t high) {
    const int bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(high)));
    return std::min(high, Between(1, int64_t{1} << Between(0, bits)));
  }
  template <typename T, size_t n>
  T Of(const T (&choices)[n]) {
    return choices[static_cast<size_t>(Between(0, static_cast<int64_t>(n) - 1))];
  }
  uint32_t Seed() { return static_cast<uint32_t>(random_()); }
  std::mt19937& random() { return random_; }

 private:
  std::mt19937 random_;
};

class RandomShapesTest : public testing::Test {
 protected:
  RandomShapesTest() {
    for (int threads = 1; threads <= 3; ++threads) pools_.push_back(*ThreadPool::Make(threads));
  }

  // Calls check(draw, number) for shapes 0 .. count - 1, up to the first failure.
  template <typename Check>
  void ForShapes(uint32_t count, const Check& check) {
    for (uint32_t number = 0; number < count; ++number) {
      SCOPED_TRACE("shape " + std::to_string(number));
      Draw draw(number);
      check(draw, number);
      if (HasFailure()) return;
    }
  }

  ThreadPool& Pool(Draw& draw) { return *pools_[static_cast<size_t>(draw.Between(0, 2))]; }
  KernelContext Context(Draw& draw, Isa isa) {
    return {.table = KernelsFor(isa), .pool = Pool(draw)};
  }

 private:
  std::vector<std::unique_ptr<ThreadPool>> pools_;
};

}  // namespace baton
