// For tests: 8-bit codes of numbers that share a scale, by the rule in kernels/kv_write.h, and not
// by the kernels under test.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace baton {

struct Q8Numbers {
  std::vector<int> codes;  // -127..127
  float scale = 0.0f;

  float At(size_t i) const { return static_cast<float>(codes[i]) * scale; }
};

inline Q8Numbers ToQ8(std::span<const float> numbers) {
  Q8Numbers result = {.codes = std::vector<int>(numbers.size()), .scale = 0.0f};
  float largest = 0.0f;
  for (const float x : numbers) {
    if (!std::isfinite(x)) {
      result.scale = std::numeric_limits<float>::quiet_NaN();
      return result;
    }
    largest = std::fmax(largest, std::fabs(x));
  }
  if (largest < 0x1p-119f) return result;
  result.scale = largest / 127.0f;
  const float inverse = 127.0f / largest;
  for (size_t i = 0; i < numbers.size(); ++i) {
    result.codes[i] = static_cast<int>(std::nearbyint(numbers[i] * inverse));
  }
  return result;
}

}  // namespace baton
