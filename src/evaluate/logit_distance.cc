#include "evaluate/logit_distance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/portable_math.h"

namespace baton {
namespace {

// Enough work for a task, and many tasks in the vocabularies in use.
constexpr size_t kSegment = 4096;
// e^x is 0 from here on; far below what any sum notices.
constexpr double kLeastLogProbability = -800.0;

double SegmentSum(std::span<const float> p, double p_log_sum, std::span<const float> q,
                  double q_log_sum) {
  std::array<double, kSegment> log_p;
  std::array<double, kSegment> weights;
  for (size_t i = 0; i < p.size(); ++i) {
    const double x = static_cast<double>(p[i]) - p_log_sum;
    // Also for what is not a number.
    log_p[i] = x > kLeastLogProbability ? x : kLeastLogProbability;
  }
  ExpInto(std::span(log_p).first(p.size()), std::span(weights).first(p.size()));
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    if (weights[i] == 0.0) continue;
    const double log_q = static_cast<double>(q[i]) - q_log_sum;
    sum += std::isnan(log_q) ? std::numeric_limits<double>::infinity()
                             : weights[i] * (log_p[i] - log_q);
  }
  return sum;
}

}  // namespace

double KlDivergence(const LogitRow& p, const LogitRow& q, ThreadPool& pool,
                    std::vector<double>& partials) {
  CHECK_EQ(p.logits.size(), q.logits.size());
  const size_t size = p.logits.size();
  const size_t num_segments = (size + kSegment - 1) / kSegment;
  partials.assign(num_segments, 0.0);
  pool.ParallelFor(static_cast<int64_t>(num_segments), [&](int64_t segment, int) {
    const size_t begin = static_cast<size_t>(segment) * kSegment;
    const size_t count = std::min(kSegment, size - begin);
    partials[static_cast<size_t>(segment)] = SegmentSum(p.logits.subspan(begin, count), p.log_sum,
                                                        q.logits.subspan(begin, count), q.log_sum);
  });
  double total = 0;
  for (const double partial : partials) total += partial;
  return total;
}

int64_t LikeliestToken(std::span<const float> logits) {
  CHECK(!logits.empty());
  size_t best = 0;
  for (size_t i = 1; i < logits.size(); ++i) {
    if (logits[i] > logits[best] || std::isnan(logits[best])) best = i;
  }
  return static_cast<int64_t>(best);
}

}  // namespace baton
