// "Did you mean": the known name that is closest to a mistyped one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace baton {

// The number of edits (insert, delete, replace a byte, swap two neighbours) between two names.
// Time: the product of their lengths, each cut at 64 bytes.
int EditDistance(std::string_view a, std::string_view b);

// The candidate that is nearest, the first of equals; dashes in front do not count. Near is one
// that
// - differs in at most a third of its letters (of longer ones than three 2 edits are forgiven), or
// - begins with `word`, or is the beginning of it, at least a third and 4 letters, or
// - has `word` among its words ("max-tokens" has "tokens"), or has several, or the first alone,
// that
//   are all words of `word`.
// Of fewer than three letters nothing but a misspelling is guessed. Nothing if none is near.
std::optional<std::string> NearMatch(std::string_view word,
                                     std::span<const std::string> candidates);

// "; did you mean 'x'?" for a near match, else the empty string.
std::string DidYouMean(std::string_view word, std::span<const std::string> candidates);

}  // namespace baton
