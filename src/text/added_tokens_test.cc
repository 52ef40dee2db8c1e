#include "text/added_tokens.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace baton {
namespace {

// The rule, said plainly: try every start, then every token there, and keep the longest.
std::optional<AddedTokenMatch> FindSlowly(const std::vector<AddedToken>& tokens,
                                          const std::string& text, size_t from) {
  for (size_t begin = from; begin < text.size(); ++begin) {
    std::optional<AddedTokenMatch> best;
    for (const AddedToken& token : tokens) {
      if (token.text.empty() || text.compare(begin, token.text.size(), token.text) != 0) continue;
      const size_t end = begin + token.text.size();
      const bool better = !best || end > best->end || (end == best->end && token.id < best->id);
      if (better) best = AddedTokenMatch{begin, end, token.id};
    }
    if (best) return best;
  }
  return std::nullopt;
}

TEST(AddedTokens, AgreeWithThePlainRuleOnRandomSets) {
  std::mt19937 random(11);
  const auto random_text = [&](size_t max_length) {
    std::string text(random() % (max_length + 1), ' ');
    for (char& c : text) c = "ab\xFF"[random() % 3];
    return text;
  };
  size_t num_matches = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<AddedToken> tokens;
    const size_t count = random() % 12;
    for (size_t i = 0; i < count; ++i) {
      tokens.push_back({random_text(5), static_cast<TokenId>(i)});
    }
    const AddedTokens fast(tokens);
    const std::string text = random_text(60);
    for (size_t from = 0; from <= text.size(); ++from) {
      const auto right = FindSlowly(tokens, text, from);
      const auto got = fast.FindNext(text, from);
      ASSERT_EQ(got.has_value(), right.has_value());
      if (!right) continue;
      ++num_matches;
      EXPECT_EQ(got->begin, right->begin);
      EXPECT_EQ(got->end, right->end);
      EXPECT_EQ(got->id, right->id);
    }
  }
  EXPECT_GT(num_matches, 1000u);
}

}  // namespace
}  // namespace baton
