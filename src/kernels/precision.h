// Precision: how closely the inputs of quantized layers are represented.
//
// A header of its own, without the standard library, since the units that are compiled once per
// instruction set read it too.
#pragma once

namespace baton {

// The name belongs to the answer, since results differ by it.
enum class Precision : int {
  kFast,   // int8 per 32 values
  kExact,  // int16 per 32 values
};
inline constexpr int kNumPrecisions = 2;

// Grows whenever the bits of any result change (docs/numerics.md); what is saved of a computation
// carries it.
inline constexpr int kNumericsVersion = 1;

}  // namespace baton
