// The linear layer as its formula says, in binary64: what the kernels are tested against. Shares no
// code with them.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace baton {

// The numbers that a row of inputs stands for once it is quantized: scale * code, per 32 values
// with codes of magnitude at most `largest_code`; a block whose largest magnitude is below
// `smallest_max` is zeros, one that holds a NaN or an infinity is NaN.
inline std::vector<double> ReferenceQuantized(std::span<const float> row, float largest_code,
                                              float smallest_max) {
  std::vector<double> values(row.size());
  for (size_t first = 0; first < row.size(); first += 32) {
    float amax = 0.0f;
    bool finite = true;
    for (size_t i = first; i < first + 32; ++i) {
      amax = std::fmax(amax, std::fabs(row[i]));
      finite = finite && std::isfinite(row[i]);
    }
    for (size_t i = first; i < first + 32; ++i) {
      if (!finite) {
        values[i] = std::numeric_limits<double>::quiet_NaN();
      } else if (amax < smallest_max) {
        values[i] = 0.0;
      } else {
        const float scale = amax / largest_code;
        const float scaled = row[i] * (largest_code / amax);
        values[i] = static_cast<double>(scale) * std::nearbyint(static_cast<double>(scaled));
      }
    }
  }
  return values;
}

// A sum of products and the sum of their magnitudes, which its rounding errors are measured by.
struct ReferenceSum {
  double value = 0.0;
  double magnitude = 0.0;
};

// Shapes: weights, weight_magnitudes, inputs: [num_inputs].
inline ReferenceSum ReferenceDot(std::span<const float> weights,
                                 std::span<const double> weight_magnitudes,
                                 std::span<const double> inputs) {
  ReferenceSum sum;
  for (size_t i = 0; i < inputs.size(); ++i) {
    sum.value += static_cast<double>(weights[i]) * inputs[i];
    sum.magnitude += weight_magnitudes[i] * std::fabs(inputs[i]);
  }
  return sum;
}

}  // namespace baton
