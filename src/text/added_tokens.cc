#include "text/added_tokens.h"

#include <algorithm>
#include <utility>

namespace baton {

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.text.empty(); });
  std::sort(tokens_.begin(), tokens_.end(), [](const AddedToken& a, const AddedToken& b) {
    return std::pair(std::string_view(a.text), a.id) < std::pair(std::string_view(b.text), b.id);
  });
  const auto same_text = [](const AddedToken& a, const AddedToken& b) { return a.text == b.text; };
  tokens_.erase(std::unique(tokens_.begin(), tokens_.end(), same_text), tokens_.end());
  for (const AddedToken& token : tokens_) first_bytes_.set(static_cast<uint8_t>(token.text[0]));
}

std::optional<AddedTokenMatch> AddedTokens::FindNext(std::string_view text, size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!first_bytes_.test(static_cast<uint8_t>(text[begin]))) continue;
    if (auto match = LongestAt(text, begin)) return match;
  }
  return std::nullopt;
}

// Narrows the sorted tokens, byte by byte, to those that start like the text does. A token that
// ends after `depth` bytes sorts first among them.
std::optional<AddedTokenMatch> AddedTokens::LongestAt(std::string_view text, size_t begin) const {
  std::optional<AddedTokenMatch> best;
  auto low = tokens_.begin();
  auto high = tokens_.end();
  for (size_t depth = 0; begin + depth < text.size(); ++depth) {
    const auto byte = static_cast<uint8_t>(text[begin + depth]);
    const auto byte_at_depth = [depth](const AddedToken& token) {
      return static_cast<uint8_t>(token.text[depth]);
    };
    low = std::partition_point(
        low, high, [&](const AddedToken& token) { return byte_at_depth(token) < byte; });
    high = std::partition_point(
        low, high, [&](const AddedToken& token) { return byte_at_depth(token) == byte; });
    if (low == high) break;
    if (low->text.size() == depth + 1) {
      best = AddedTokenMatch{begin, begin + depth + 1, low->id};
      ++low;
      if (low == high) break;
    }
  }
  return best;
}

}  // namespace baton
