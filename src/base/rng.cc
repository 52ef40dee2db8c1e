#include "base/rng.h"

#include <cmath>

#include "base/check.h"
#include "base/portable_math.h"

namespace baton {
namespace {

constexpr int kRounds = 10;
constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;  // the golden ratio
constexpr uint32_t kWeyl1 = 0xBB67AE85;  // √3 − 1
// Tells the draws of UniformAt from those of RandomStream.
constexpr uint32_t kPlaceDomain = 0x706c6163;
constexpr double kTwoPi = 6.283185307179586;

uint32_t Low(uint64_t x) {
  return static_cast<uint32_t>(x);
}
uint32_t High(uint64_t x) {
  return static_cast<uint32_t>(x >> 32);
}

// 53 bits of two words as a fraction.
double Fraction(uint32_t high, uint32_t low) {
  const uint64_t bits = (uint64_t{high} << 32 | low) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = uint64_t{kMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kMultiplier1} * counter[2];
    counter = {High(product1) ^ counter[1] ^ key[0], Low(product1),
               High(product0) ^ counter[3] ^ key[1], Low(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

double UniformAt(const RandomPlace& place) {
  const auto words =
      Philox4x32({Low(place.position), High(place.position), place.draw, kPlaceDomain},
                 {Low(place.seed), High(place.seed)});
  return Fraction(words[0], words[1]);
}

uint32_t RandomStream::NextU32() {
  if (words_left_ == 0) {
    // 2^64 streams of 2^32 · 4 words; the fourth counter word stays clear of kPlaceDomain.
    CHECK_LT(blocks_used_, uint64_t{1} << 32);
    words_ = Philox4x32({Low(key_.stream), High(key_.stream), Low(blocks_used_), 0},
                        {Low(key_.seed), High(key_.seed)});
    ++blocks_used_;
    words_left_ = 4;
  }
  return words_[4 - words_left_--];
}

uint64_t RandomStream::NextU64() {
  const uint64_t high = NextU32();
  return high << 32 | NextU32();
}

double RandomStream::NextUniform() {
  const uint32_t high = NextU32();
  return Fraction(high, NextU32());
}

uint64_t RandomStream::NextBelow(uint64_t bound) {
  CHECK_GT(bound, 0u);
  // The values from `limit` on are one incomplete round of `bound`; draw again.
  const uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
  uint64_t value = NextU64();
  while (value >= limit) value = NextU64();
  return value % bound;
}

double RandomStream::NextNormal() {
  // Box and Muller; 1 − u is in (0, 1].
  const double radius = std::sqrt(-2.0 * Log(1.0 - NextUniform()));
  return radius * Cos(kTwoPi * NextUniform());
}

}  // namespace baton
