#include "base/near_match.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(EditDistance, CountsEdits) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("abc", ""), 3);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("run", "rnu"), 1);
  EXPECT_EQ(EditDistance("abcd", "badc"), 2);
}

TEST(EditDistance, LongNamesAreCut) {
  EXPECT_EQ(EditDistance(std::string(1000, 'a'), std::string(500, 'a')), 0);
}

TEST(NearMatch, FindsTheClosest) {
  const std::vector<std::string> names = {"run", "chat", "inspect", "tokenize", "detokenize"};
  EXPECT_EQ(NearMatch("rnu", names), "run");
  EXPECT_EQ(NearMatch("inspec", names), "inspect");
  EXPECT_EQ(NearMatch("token", names), "tokenize");
  EXPECT_EQ(NearMatch("tokenise", names), "tokenize");
  EXPECT_EQ(NearMatch("serve", names), std::nullopt);
  EXPECT_EQ(NearMatch("x", names), std::nullopt);
  EXPECT_EQ(NearMatch("run", {}), std::nullopt);
}

}  // namespace
}  // namespace baton
