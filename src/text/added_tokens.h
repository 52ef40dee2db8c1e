// Finds whole tokens inside a text: special tokens, and pieces the model's author defined by hand.
#pragma once

#include <bitset>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace baton {

// A token at [begin, end) of a text.
struct AddedTokenMatch {
  size_t begin = 0;
  size_t end = 0;
  TokenId id = -1;
};

// A token to be found.
struct AddedToken {
  std::string text;
  TokenId id = -1;
};

// An immutable set of tokens. Threads: any number of readers.
class AddedTokens {
 public:
  AddedTokens() = default;

  // Of equal texts the lowest id stays; empty texts are left out.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // The leftmost match that starts at or after `from`; of those that start there, the longest.
  // Time: linear in the distance to the match, times the length of a token.
  std::optional<AddedTokenMatch> FindNext(std::string_view text, size_t from) const;

  bool empty() const { return tokens_.empty(); }

 private:
  std::optional<AddedTokenMatch> LongestAt(std::string_view text, size_t begin) const;

  std::vector<AddedToken> tokens_;  // ascending by text
  std::bitset<256> first_bytes_;
};

}  // namespace baton
