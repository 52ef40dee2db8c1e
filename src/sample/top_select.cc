#include "sample/top_select.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace baton {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();
// Up to here a heap beside one pass is faster than partitioning everything.
constexpr int64_t kMaxHeap = 2048;

// One pass; the heap's front is the worst of the k best so far, and most values fail against it.
void SelectByHeap(std::span<const double> values, int64_t k, std::vector<Candidate>& best) {
  double worst = kMinusInfinity;
  for (int64_t i = 0; i < std::ssize(values); ++i) {
    // Equal to the worst loses as well: its id is the higher one.
    if (!(values[i] > worst)) continue;
    if (std::ssize(best) == k) {
      std::pop_heap(best.begin(), best.end(), RanksBefore);
      best.pop_back();
    }
    best.push_back({static_cast<TokenId>(i), values[i]});
    std::push_heap(best.begin(), best.end(), RanksBefore);
    if (std::ssize(best) == k) worst = best.front().value;
  }
}

void SelectByPartition(std::span<const double> values, int64_t k, std::vector<Candidate>& best) {
  for (int64_t i = 0; i < std::ssize(values); ++i) {
    if (values[i] != kMinusInfinity) best.push_back({static_cast<TokenId>(i), values[i]});
  }
  if (std::ssize(best) <= k) return;
  std::nth_element(best.begin(), best.begin() + k, best.end(), RanksBefore);
  best.resize(k);
}

}  // namespace

void SelectTop(std::span<const double> values, int64_t k, std::vector<Candidate>& best) {
  CHECK_GE(k, 0);
  best.clear();
  if (k == 0) return;
  if (k <= kMaxHeap) {
    SelectByHeap(values, k, best);
  } else {
    SelectByPartition(values, k, best);
  }
  std::sort(best.begin(), best.end(), RanksBefore);
}

}  // namespace baton
