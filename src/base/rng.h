// Random numbers that are a function of their place: Philox, a counter-based generator.
//
// The number at (seed, position, draw) is computed from these alone. Nothing has to be kept between
// draws, so a token's randomness cannot depend on the batch it was drawn in.
// Source: J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cstdint>

namespace baton {

// The block cipher Philox-4x32 with 10 rounds: four random words for a counter and a key.
// Threads: any.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// Where a random number belongs.
struct RandomPlace {
  uint64_t seed = 0;
  uint64_t position = 0;  // e.g. the token's position in its sequence
  uint32_t draw = 0;      // which draw at that position
};

// A uniformly distributed number in [0, 1), a multiple of 2^-53. Threads: any.
double UniformAt(const RandomPlace& place);

// A stream of numbers for tests, random weights and simulations: the draws of one position.
// Threads: one.
class RandomStream {
 public:
  struct Key {
    uint64_t seed = 0;
    uint64_t stream = 0;  // streams of one seed are independent of each other
  };
  explicit RandomStream(Key key) : key_(key) {}

  uint32_t NextU32();
  uint64_t NextU64();
  // In [0, 1), a multiple of 2^-53.
  double NextUniform();
  // In [0, bound), without bias. Requires: bound > 0.
  uint64_t NextBelow(uint64_t bound);
  // Normally distributed, mean 0, standard deviation 1.
  double NextNormal();

 private:
  Key key_;
  uint64_t blocks_used_ = 0;
  std::array<uint32_t, 4> words_ = {};
  int words_left_ = 0;
};

}  // namespace baton
