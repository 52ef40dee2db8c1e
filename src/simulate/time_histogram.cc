#include "simulate/time_histogram.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace baton {

void TimeHistogram::Add(double seconds) {
  CHECK(seconds >= 0);
  int exponent = 0;
  const double fraction = std::frexp(seconds, &exponent);  // in [0.5, 1), or 0
  const int part = static_cast<int>((fraction - 0.5) * (2 * kParts));
  const int bucket = (exponent - kLeastExponent) * kParts + part;
  const bool is_small = seconds == 0 || exponent < kLeastExponent;
  ++buckets_[static_cast<size_t>(is_small ? 0 : std::min(bucket, kExponents * kParts - 1))];
  ++count_;
  sum_ += seconds;
  max_ = std::max(max_, seconds);
}

void TimeHistogram::Merge(const TimeHistogram& other) {
  for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  max_ = std::max(max_, other.max_);
}

double TimeHistogram::Quantile(double share) const {
  CHECK(share >= 0 && share <= 1);
  if (count_ == 0) return 0;
  const auto wanted =
      std::max<int64_t>(1, static_cast<int64_t>(std::ceil(share * static_cast<double>(count_))));
  int64_t seen = 0;
  for (int bucket = 0; bucket < kExponents * kParts; ++bucket) {
    seen += buckets_[static_cast<size_t>(bucket)];
    if (seen < wanted) continue;
    // The last bucket has no end.
    if (bucket == kExponents * kParts - 1) return max_;
    const double end = 0.5 + (bucket % kParts + 1) / (2.0 * kParts);
    return std::min(std::ldexp(end, bucket / kParts + kLeastExponent), max_);
  }
  return max_;
}

}  // namespace baton
