#include "simulate/time_histogram.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/portable_math.h"

namespace baton {

void TimeHistogram::Add(double seconds) {
  CHECK(seconds >= 0);
  int bucket = 0;
  if (seconds > kLeast) {
    const double place = std::ceil(Log(seconds / kLeast) / Log(kRatio));
    bucket = static_cast<int>(std::min(place, static_cast<double>(kBuckets - 1)));
  }
  ++buckets_[static_cast<size_t>(bucket)];
  ++count_;
  sum_ += seconds;
  max_ = std::max(max_, seconds);
}

double TimeHistogram::Quantile(double share) const {
  CHECK(share >= 0 && share <= 1);
  if (count_ == 0) return 0;
  const auto wanted =
      std::max<int64_t>(1, static_cast<int64_t>(std::ceil(share * static_cast<double>(count_))));
  int64_t seen = 0;
  for (int bucket = 0; bucket < kBuckets; ++bucket) {
    seen += buckets_[static_cast<size_t>(bucket)];
    if (seen >= wanted) return std::min(kLeast * Pow(kRatio, bucket), max_);
  }
  return max_;
}

}  // namespace baton
