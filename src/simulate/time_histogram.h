// Times, counted in buckets a hundredth wide: any number of them in the same memory.
#pragma once

#include <array>
#include <cstdint>

namespace baton {

// Units: seconds. Values from a microsecond to 100 days are told apart to 1 %; outside of that they
// count as the nearest bucket. Memory: 23 KB, allocates nothing.
class TimeHistogram {
 public:
  // Requires: seconds >= 0.
  void Add(double seconds);

  int64_t count() const { return count_; }
  double sum() const { return sum_; }
  double max() const { return max_; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  // The value that a share of all do not exceed, at most 1 % too large; 0 if there are none.
  // Requires: 0 <= share <= 1.
  double Quantile(double share) const;

 private:
  static constexpr double kLeast = 1e-6;
  static constexpr double kRatio = 1.01;
  static constexpr int kBuckets = 2900;

  std::array<int64_t, kBuckets> buckets_ = {};
  int64_t count_ = 0;
  double sum_ = 0;
  double max_ = 0;
};

}  // namespace baton
