// Weights and activations that mean nothing and look like real ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"
#include "tensor/kv_record.h"

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

// Fills records with random keys and values of up to about 1; their statistics hold anything.
// Requires: `bytes` is a whole number of records, and aligned as they are.
void FillRecords(uint64_t seed, const KvRecord& record, std::span<std::byte> bytes);

}  // namespace baton
