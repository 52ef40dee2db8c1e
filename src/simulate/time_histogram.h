// Times, counted in buckets a hundredth wide: any number of them in the same memory.
#pragma once

#include <cstdint>
#include <vector>

namespace baton {

// Units: seconds. Values from a microsecond to 2^63 s are told apart to 0.8 %; shorter ones count
// as a microsecond, longer ones as the longest of all. Memory: 86 KB, taken when made.
class TimeHistogram {
 public:
  // Requires: seconds >= 0.
  void Add(double seconds);
  // As if all of the other's had been added here.
  void Merge(const TimeHistogram& other);

  int64_t count() const { return count_; }
  double sum() const { return sum_; }
  double max() const { return max_; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  // The value that a share of all do not exceed, at most 0.8 % too large; 0 if there are none.
  // Requires: 0 <= share <= 1.
  double Quantile(double share) const;

 private:
  // Powers of two, each in equal parts: a bucket is told by the upper bits of the number.
  static constexpr int kLeastExponent = -20;
  static constexpr int kExponents = 84;
  static constexpr int kParts = 128;

  std::vector<int64_t> buckets_ = std::vector<int64_t>(kExponents * kParts);
  int64_t count_ = 0;
  double sum_ = 0;
  double max_ = 0;
};

}  // namespace baton
