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

// The candidate with the fewest edits, the first of equals; nothing if even that one differs in
// more than a third of its letters (at least 2 edits are forgiven) and does not begin with `word`.
std::optional<std::string> NearMatch(std::string_view word,
                                     std::span<const std::string> candidates);

// "; did you mean 'x'?" for a near match, else the empty string.
std::string DidYouMean(std::string_view word, std::span<const std::string> candidates);

}  // namespace baton
