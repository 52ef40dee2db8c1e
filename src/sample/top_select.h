// The k best of many numbers, with one answer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace baton {

// A token and the number it is ranked by.
struct Candidate {
  TokenId id = 0;
  double value = 0.0;
};

// Whether a ranks before b: the greater value, then the lower id. No two tokens tie, so the order
// of any set is one, whatever the algorithm.
inline bool RanksBefore(const Candidate& a, const Candidate& b) {
  return a.value != b.value ? a.value > b.value : a.id < b.id;
}

// Puts the k best of values into best, in rank order, with their index as id; −infinity is left
// out, so there may be fewer. Requires: k >= 0; no NaN.
// Memory: grows best to at most k.
void SelectTop(std::span<const double> values, int64_t k, std::vector<Candidate>& best);

}  // namespace baton
