// Weights and activations that mean nothing and look like real ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace baton {

// Fills rows of blocks of a weight type: random codes and sub-scales, scales of everyday size, no
// NaN or infinity. After 64 rows the same ones come again.
// Requires: `bytes` is a whole number of rows; the type has kernels.
struct WeightFill {
  DType type = DType::kF32;
  int64_t num_inputs = 0;
  uint64_t seed = 1;
};
void FillWeights(const WeightFill& fill, std::span<std::byte> bytes);

// Random numbers between -2 and 2, uniform.
void FillFloats(uint64_t seed, std::span<float> values);

// Random binary16 numbers between 1/2 and 1, either sign.
void FillHalves(uint64_t seed, std::span<uint16_t> values);

}  // namespace baton
