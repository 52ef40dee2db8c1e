// The formula of attention for one row and one head, in double: what the kernels are tested
// against. Shares no code with them.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace baton {

struct AttentionReferenceArgs {
  const float* q;       // [head_dim]
  const float* keys;    // [tokens][head_dim], the stored values
  const float* values;  // [tokens][head_dim]
  int64_t first_key;    // visible: first_key .. last_key
  int64_t last_key;
  int head_dim;
  double scale;
  double soft_cap;  // 0: none
};

struct AttentionReference {
  std::vector<double> out;     // [head_dim]
  std::vector<double> shares;  // [visible keys] what each key's weight is of the sum of weights
  double largest_logit;        // of |s| before the cap
  double largest_terms;        // of scale * sum |q_c k_c|
  double largest_value;        // of |v|
};

inline AttentionReference AttendReference(const AttentionReferenceArgs& args) {
  AttentionReference result = {
      std::vector<double>(static_cast<size_t>(args.head_dim)), {}, 0, 0, 0};
  std::vector<double> logits;
  double maximum = -HUGE_VAL;
  for (int64_t t = args.first_key; t <= args.last_key; ++t) {
    double dot = 0;
    double terms = 0;
    for (int c = 0; c < args.head_dim; ++c) {
      const double product =
          static_cast<double>(args.q[c]) * static_cast<double>(args.keys[t * args.head_dim + c]);
      dot += product;
      terms += std::fabs(product);
      result.largest_value = std::fmax(
          result.largest_value, std::fabs(static_cast<double>(args.values[t * args.head_dim + c])));
    }
    double s = dot * args.scale;
    result.largest_logit = std::fmax(result.largest_logit, std::fabs(s));
    result.largest_terms = std::fmax(result.largest_terms, terms * std::fabs(args.scale));
    if (args.soft_cap != 0) s = args.soft_cap * std::tanh(s / args.soft_cap);
    logits.push_back(s);
    maximum = std::fmax(maximum, s);
  }
  double sum = 0;
  for (int64_t t = args.first_key; t <= args.last_key; ++t) {
    const double weight = std::exp(logits[static_cast<size_t>(t - args.first_key)] - maximum);
    sum += weight;
    result.shares.push_back(weight);
    for (int c = 0; c < args.head_dim; ++c) {
      result.out[static_cast<size_t>(c)] +=
          weight * static_cast<double>(args.values[t * args.head_dim + c]);
    }
  }
  for (double& x : result.out) x /= sum;
  for (double& x : result.shares) x /= sum;
  return result;
}

}  // namespace baton
