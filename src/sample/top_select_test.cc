#include "sample/top_select.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/rng.h"

namespace baton {
namespace {

// Against sorting everything, with many equal values, on both sides of the heap's limit.
TEST(SelectTop, EqualsTheFrontOfASort) {
  constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();
  RandomStream random({.seed = 1, .stream = 0});
  for (const int64_t size : {0, 1, 2, 100, 5000}) {
    std::vector<double> values(size);
    for (double& value : values) {
      value = random.NextBelow(10) == 0 ? kMinusInfinity : double(random.NextBelow(50)) - 25.0;
    }
    std::vector<Candidate> sorted;
    for (int64_t i = 0; i < size; ++i) {
      if (values[i] != kMinusInfinity) sorted.push_back({static_cast<TokenId>(i), values[i]});
    }
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const Candidate& a, const Candidate& b) { return a.value > b.value; });
    std::vector<Candidate> best;
    for (const int64_t k : {0, 1, 2, 40, 2048, 2049, 4999, 5000, 100000}) {
      SelectTop(values, k, best);
      ASSERT_EQ(std::ssize(best), std::min(k, std::ssize(sorted)));
      for (size_t i = 0; i < best.size(); ++i) ASSERT_EQ(best[i].id, sorted[i].id);
    }
  }
}

}  // namespace
}  // namespace baton
