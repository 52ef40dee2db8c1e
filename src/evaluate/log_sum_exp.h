// The logarithm of the sum of exp of logits: what turns a logit into a log-probability.
#pragma once

#include <span>
#include <vector>

#include "threads/pool.h"

namespace baton {

// Sums in double, in segments of fixed size, with base/portable_math's functions: a function of
// the logits alone. NaN and −infinity count as nothing; no finite logit gives −infinity.
// `partials` is scratch. Threads: spreads over the pool.
double LogSumExp(std::span<const float> logits, ThreadPool& pool, std::vector<double>& partials);

}  // namespace baton
