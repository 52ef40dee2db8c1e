#include "base/near_match.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

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

namespace {

constexpr std::string_view kBetweenWords = "-_ ";
constexpr size_t kMinLetters = 3;
constexpr size_t kMinBeginningLetters = 4;

std::string_view WithoutDashes(std::string_view name) {
  return name.substr(std::min(name.find_first_not_of('-'), name.size()));
}

std::vector<std::string_view> WordsOf(std::string_view name) {
  std::vector<std::string_view> words;
  while (!name.empty()) {
    const size_t end = std::min(name.find_first_of(kBetweenWords), name.size());
    if (end > 0) words.push_back(name.substr(0, end));
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return words;
}

// Whether all words of `part` are among those of `whole`, in any order.
bool AreAmong(const std::vector<std::string_view>& part,
              const std::vector<std::string_view>& whole) {
  return std::all_of(part.begin(), part.end(), [&](std::string_view word) {
    return std::find(whole.begin(), whole.end(), word) != whole.end();
  });
}

bool ShareWords(std::string_view word, std::string_view candidate) {
  const std::vector<std::string_view> given = WordsOf(word);
  const std::vector<std::string_view> known = WordsOf(candidate);
  if (given.empty() || known.empty()) return false;
  if (AreAmong(given, known)) return true;
  return AreAmong(known, given) && (known.size() > 1 || known[0] == given[0]);
}

// Edits; the other kinds of nearness count as one or two.
std::optional<int> DistanceIfNear(std::string_view word, std::string_view candidate) {
  const int distance = EditDistance(word, candidate);
  const int size = static_cast<int>(candidate.size());
  const int forgiven = std::max(candidate.size() > kMinLetters ? 2 : 1, size / 3);
  const bool is_misspelled = distance <= forgiven && distance < size;
  if (distance <= 1 && is_misspelled) return distance;
  if (word.size() >= kMinLetters && candidate.starts_with(word)) return 1;
  if (is_misspelled) return distance;
  if (std::min(word.size(), candidate.size()) < kMinLetters) return std::nullopt;
  const bool is_longer = candidate.size() >= kMinBeginningLetters &&
                         3 * candidate.size() >= word.size() && word.starts_with(candidate);
  if (is_longer || ShareWords(word, candidate)) return 2;
  return std::nullopt;
}

}  // namespace

std::optional<std::string> NearMatch(std::string_view word,
                                     std::span<const std::string> candidates) {
  const std::string_view letters = WithoutDashes(word);
  std::optional<std::string> best;
  int best_distance = 0;
  for (const std::string& candidate : candidates) {
    const std::optional<int> distance = DistanceIfNear(letters, WithoutDashes(candidate));
    if (!distance.has_value() || (best.has_value() && *distance >= best_distance)) continue;
    best = candidate;
    best_distance = *distance;
  }
  return best;
}

std::string DidYouMean(std::string_view word, std::span<const std::string> candidates) {
  const std::optional<std::string> match = NearMatch(word, candidates);
  return match.has_value() ? fmt::format("; did you mean '{}'?", *match) : std::string();
}

}  // namespace baton
