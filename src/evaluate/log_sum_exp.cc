#include "evaluate/log_sum_exp.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/portable_math.h"

namespace baton {
namespace {

// Enough work for a task, and many tasks in the vocabularies in use.
constexpr size_t kSegment = 4096;

}  // namespace

double LogSumExp(std::span<const float> logits, ThreadPool& pool, std::vector<double>& partials) {
  float best = -std::numeric_limits<float>::infinity();
  for (const float logit : logits) best = logit > best ? logit : best;
  if (!std::isfinite(best)) return static_cast<double>(best);
  const size_t num_segments = (logits.size() + kSegment - 1) / kSegment;
  partials.assign(num_segments, 0.0);
  pool.ParallelFor(static_cast<int64_t>(num_segments), [&](int64_t segment, int) {
    const size_t begin = static_cast<size_t>(segment) * kSegment;
    const size_t end = std::min(begin + kSegment, logits.size());
    double sum = 0.0;
    for (size_t i = begin; i < end; ++i) {
      const float logit = logits[i];
      if (!std::isnan(logit)) sum += Exp(static_cast<double>(logit) - static_cast<double>(best));
    }
    partials[static_cast<size_t>(segment)] = sum;
  });
  double total = 0.0;
  for (const double partial : partials) total += partial;
  return static_cast<double>(best) + Log(total);
}

}  // namespace baton
