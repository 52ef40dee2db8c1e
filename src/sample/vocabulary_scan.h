// Passes over one number per token of a vocabulary, several numbers at a time.
//
// A vocabulary has up to 262,144 tokens and a choice makes a handful of passes, so these are what
// sampling costs. The order of each sum is fixed by the index alone.
#pragma once

#include <cstdint>
#include <span>

namespace baton {

// Copies logits as double, NaN as −infinity, and returns the greatest; −infinity if there is none.
// Shapes: logits: [n] f32; values: [n] f64.
double LoadLogits(std::span<const float> logits, std::span<double> values);

// The greatest value. Requires: no NaN. −infinity if there are none.
double GreatestOf(std::span<const double> values);

// The lowest index at which the value stands. Requires: it stands somewhere.
int64_t FirstIndexOf(std::span<const double> values, double value);

// Σ exp(value − best): index i goes to partial sum i mod 8 in blocks of 512; then the partial sums
// are added in order. Requires: no value above best; scratch has room for kScanBlock.
inline constexpr int64_t kScanBlock = 512;
double SumOfExp(std::span<const double> values, double best, std::span<double> scratch);

}  // namespace baton
