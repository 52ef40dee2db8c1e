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

TEST(NearMatch, FindsNamesByTheirWords) {
  const std::vector<std::string> commands = {
      "run", "chat", "serve", "bench", "bench model", "eval perplexity", "eval kl"};
  EXPECT_EQ(NearMatch("bench-model", commands), "bench model");
  EXPECT_EQ(NearMatch("perplexity", commands), "eval perplexity");
  EXPECT_EQ(NearMatch("benchmark", commands), "bench");
  EXPECT_EQ(NearMatch("chatbot", commands), "chat");
  EXPECT_EQ(NearMatch("run-model", commands), "run");
  EXPECT_EQ(NearMatch("runtime", commands), std::nullopt);
  EXPECT_EQ(NearMatch("charter", commands), std::nullopt);
  EXPECT_EQ(NearMatch("k", commands), std::nullopt);
  const std::vector<std::string> options = {"--file",  "--max-tokens", "--threads",
                                            "--top-k", "--temp",       "--repeat-penalty"};
  EXPECT_EQ(NearMatch("--tokens", options), "--max-tokens");
  EXPECT_EQ(NearMatch("--penalty", options), "--repeat-penalty");
  EXPECT_EQ(NearMatch("--temperature", options), "--temp");
  EXPECT_EQ(NearMatch("--threads-batch", options), "--threads");
  EXPECT_EQ(NearMatch("--max_tokens", options), "--max-tokens");
  EXPECT_EQ(NearMatch("--top", options), "--top-k");
  EXPECT_EQ(NearMatch("--t", options), std::nullopt);
  EXPECT_EQ(NearMatch("--verbose", options), std::nullopt);
  EXPECT_EQ(NearMatch("--f", options), std::nullopt);
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
