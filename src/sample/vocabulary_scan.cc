#include "sample/vocabulary_scan.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/check.h"
#include "base/portable_math.h"

namespace baton {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();
// Independent chains, so that a pass is not bound by the latency of one operation.
constexpr int64_t kLanes = 8;
using Lanes = std::array<double, kLanes>;

}  // namespace

double LoadLogits(std::span<const float> logits, std::span<double> values) {
  CHECK_EQ(logits.size(), values.size());
  const float* in = logits.data();
  double* out = values.data();
  for (int64_t i = 0; i < std::ssize(logits); ++i) {
    const auto logit = static_cast<double>(in[i]);
    out[i] = logit == logit ? logit : kMinusInfinity;
  }
  return GreatestOf(values);
}

double GreatestOf(std::span<const double> values) {
  Lanes greatest;
  greatest.fill(kMinusInfinity);
  const double* in = values.data();
  const int64_t size = std::ssize(values);
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      greatest[lane] = in[i + lane] > greatest[lane] ? in[i + lane] : greatest[lane];
    }
  }
  for (; i < size; ++i) greatest[0] = std::max(greatest[0], in[i]);
  return *std::max_element(greatest.begin(), greatest.end());
}

int64_t FirstIndexOf(std::span<const double> values, double value) {
  const auto found = std::find(values.begin(), values.end(), value);
  CHECK(found != values.end());
  return found - values.begin();
}

double SumOfExp(std::span<const double> values, double best, std::span<double> scratch) {
  CHECK_GE(std::ssize(scratch), kScanBlock);
  static_assert(kScanBlock % kLanes == 0);
  Lanes sums = {};
  for (int64_t begin = 0; begin < std::ssize(values); begin += kScanBlock) {
    const int64_t size = std::min(kScanBlock, std::ssize(values) - begin);
    const std::span<double> block = scratch.first(size);
    for (int64_t i = 0; i < size; ++i) block[i] = values[begin + i] - best;
    ExpInto(block, block);
    for (int64_t i = 0; i < size; ++i) sums[i % kLanes] += block[i];
  }
  double total = 0.0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace baton
