// Row operations in double: what the kernels are tested against. Shares no code with them.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace baton {

// x / sqrt(mean(x^2) + eps) * weight of one row.
inline std::vector<double> RmsNormReference(const std::vector<float>& x,
                                            const std::vector<float>& weight, double eps) {
  double squares = 0;
  for (const float value : x) squares += static_cast<double>(value) * static_cast<double>(value);
  const double root = std::sqrt(squares / static_cast<double>(x.size()) + eps);
  std::vector<double> out;
  for (size_t i = 0; i < x.size(); ++i) {
    out.push_back(static_cast<double>(x[i]) / root * static_cast<double>(weight[i]));
  }
  return out;
}

inline double SiluReference(double x) {
  return x / (1 + std::exp(-x));
}

inline double GeluTanhReference(double x) {
  // 0.5 x (1 + tanh(u)) loses its digits in the negative tail; this is the same function.
  const double u = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
  return x / (1 + std::exp(-2 * u));
}

inline double SoftCapReference(double x, double cap) {
  return cap * std::tanh(x / cap);
}

}  // namespace baton
