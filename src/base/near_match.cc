#include "base/near_match.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace baton {
namespace {

constexpr size_t kMaxNameBytes = 64;

using Row = std::array<int, kMaxNameBytes + 1>;

}  // namespace

int EditDistance(std::string_view a, std::string_view b) {
  a = a.substr(0, kMaxNameBytes);
  b = b.substr(0, kMaxNameBytes);
  // Rows i - 2, i - 1 and i of the table of distances between the first i letters of a and the
  // first j of b.
  Row before_last{};
  Row last{};
  Row now{};
  for (size_t j = 0; j <= b.size(); ++j) now[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last = last;
    last = now;
    now[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      now[j] = std::min({replace, last[j] + 1, now[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        now[j] = std::min(now[j], before_last[j - 2] + 1);
      }
    }
  }
  return now[b.size()];
}

std::optional<std::string> NearMatch(std::string_view word,
                                     std::span<const std::string> candidates) {
  std::optional<std::string> best;
  int best_distance = 0;
  for (const std::string& candidate : candidates) {
    int distance = EditDistance(word, candidate);
    const int forgiven = std::max(2, static_cast<int>(candidate.size()) / 3);
    const bool begins = word.size() >= 3 && candidate.starts_with(word);
    const bool shares_a_letter = distance < static_cast<int>(candidate.size());
    if ((distance > forgiven || !shares_a_letter) && !begins) continue;
    if (begins) distance = 1;
    if (!best.has_value() || distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string DidYouMean(std::string_view word, std::span<const std::string> candidates) {
  const std::optional<std::string> match = NearMatch(word, candidates);
  return match.has_value() ? fmt::format("; did you mean '{}'?", *match) : std::string();
}

}  // namespace baton
