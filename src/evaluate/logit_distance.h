// How far one row of logits is from another, over the whole vocabulary.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "threads/pool.h"

namespace baton {

// A row of logits and the logarithm of the sum of their exp.
struct LogitRow {
  std::span<const float> logits;
  double log_sum = 0;
};

// KL(p || q) in nats, in double, in segments of fixed size: a function of the rows alone. What is
// not a number counts as -infinity. Infinite where q has nothing and p has something.
// Requires: rows of one size. `partials` is scratch. Threads: spreads over the pool.
double KlDivergence(const LogitRow& p, const LogitRow& q, ThreadPool& pool,
                    std::vector<double>& partials);

// The index of the largest logit, of equals the first. Requires: at least one.
int64_t LikeliestToken(std::span<const float> logits);

}  // namespace baton
