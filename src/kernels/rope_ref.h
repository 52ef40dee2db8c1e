// Rotary embedding of one head in long double: what the kernels are tested against. Shares no code
// with them.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace baton {

struct RopeReferenceArgs {
  std::vector<float> x;  // [head_dim]
  int rotary_dim;
  bool interleaved;
  long double position;
  std::vector<long double> frequencies;  // [rotary_dim / 2]
  long double attention_factor;
};

inline std::vector<double> RopeReference(const RopeReferenceArgs& args) {
  std::vector<double> out(args.x.begin(), args.x.end());
  const size_t half = static_cast<size_t>(args.rotary_dim) / 2;
  for (size_t i = 0; i < half; ++i) {
    const long double angle = args.position * args.frequencies[i];
    const long double cosine = cosl(angle) * args.attention_factor;
    const long double sine = sinl(angle) * args.attention_factor;
    const size_t first = args.interleaved ? 2 * i : i;
    const size_t second = args.interleaved ? 2 * i + 1 : i + half;
    const long double a = args.x[first];
    const long double b = args.x[second];
    out[first] = static_cast<double>(a * cosine - b * sine);
    out[second] = static_cast<double>(a * sine + b * cosine);
  }
  return out;
}

}  // namespace baton
