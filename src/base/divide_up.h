#pragma once

#include <cstdint>

namespace baton {

// How many parts of size b hold a. Requires: a >= 0, b > 0; the sum fits.
constexpr int64_t DivideUp(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace baton
