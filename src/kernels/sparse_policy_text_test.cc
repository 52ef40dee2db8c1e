// Policies as people write them: what is written is read back, and what is wrong is told by name.
#include "kernels/sparse_policy_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(SparsePolicyText, ReadsWhatIsWritten) {
  SparsePolicy policy;
  EXPECT_EQ(ParsePolicy(PolicyText(policy), SparsePolicy{.alpha = 0.5f}), policy);
  policy = {.rule = SelectionRule::kShare,
            .share = 0.15,
            .min_blocks = 3,
            .estimate = BlockEstimate::kFar,
            .num_estimates = 8,
            .energy = BlockEnergy::kRandom,
            .energy_seed = 77,
            .block_tokens = 128,
            .tile_positions = 32,
            .sink_tokens = 64,
            .window_tokens = 256,
            .last_tiles = 0,
            .has_correction = false,
            .min_prompt_tokens = 4000,
            .has_sparse_windows = true,
            .dense_layers = {6, 7},
            .dense_heads = {{.layer = 17, .kv_head = 1}, {.layer = 23, .kv_head = 0}},
            .shares = {{.layer = 2, .share = 0.6}, {.layer = 2, .kv_head = 1, .share = 0}}};
  EXPECT_EQ(ParsePolicy(PolicyText(policy), SparsePolicy()), policy);
  policy.energy = BlockEnergy::kTrue;
  policy.energy_seed = 0;
  EXPECT_EQ(ParsePolicy(PolicyText(policy), SparsePolicy()), policy);
  // What orders blocks is no part of a rule that asks for no order.
  policy.rule = SelectionRule::kNone;
  EXPECT_EQ(PolicyText(policy).find("energy"), std::string::npos);
  EXPECT_EQ(ParsePolicy("published", policy), SparsePolicy());
  EXPECT_EQ(ParsePolicy("published correction=off", policy)->has_correction, false);
}

TEST(SparsePolicyText, WhatIsNotNamedStays) {
  const SparsePolicy base{.sink_tokens = 64, .dense_layers = {3}};
  const Result<SparsePolicy> policy = ParsePolicy("  rule=share:0.25  window=128 ", base);
  ASSERT_TRUE(policy.has_value()) << policy.error().message;
  EXPECT_EQ(policy->rule, SelectionRule::kShare);
  EXPECT_EQ(policy->share, 0.25);
  EXPECT_EQ(policy->window_tokens, 128);
  EXPECT_EQ(policy->sink_tokens, 64);
  EXPECT_EQ(policy->dense_layers, std::vector<int>{3});
  EXPECT_EQ(ParsePolicy("", base), base);
  EXPECT_EQ(ParsePolicy("\trule=share:0.25\r\nwindow=128\n", base), *policy);
  EXPECT_TRUE(ParsePolicy("dense-layers=", base)->dense_layers.empty());
}

TEST(SparsePolicyText, WrongWordsAreTold) {
  const char* const wrong[][2] = {
      {"share", "share"},
      {"alpha=0.1", "alpha"},
      {"rule=share", "rule"},
      {"rule=share:0", "share"},
      {"rule=share:1.5", "share"},
      {"rule=share:0.1,2,3", "rule"},
      {"rule=threshold:nan", "alpha"},
      {"rule=threshold:-1", "alpha"},
      {"rule=threshold:", "rule"},
      {"rule=best", "rule"},
      {"rule=threshold:2 last=0", "above 0 and at most 1, got 2"},
      {"rule=threshold:1.5", "above 0 and at most 1, got 1.5"},
      {"rule=threshold:0", "above 0 and at most 1, got 0"},
      {"rule=threshold:inf", "above 0 and at most 1, got inf"},
      {"publish", "did you mean 'published'?"},
      {"publihsed last=1", "did you mean 'published'?"},
      {"windw=64", "dense-heads, shares, published; did you mean 'window'?"},
      {"zzz=1", "dense-heads, shares, published"},
      {"sink", "dense-heads, shares, published; did you mean 'sink'?"},
      {"estimate=far", "estimate"},
      {"estimate=far:9", "estimates"},
      {"estimate=far:1", "estimates"},
      {"energy=random", "energy"},
      {"energy=random:-1", "energy"},
      {"energy=mass", "energy"},
      {"block=64 published", "put it in front"},
      {"block=96", "block"},
      {"tile=48", "tile"},
      {"window=0", "window"},
      {"sink=-1", "sink"},
      {"last=99999999999999999999", "last"},
      {"correction=maybe", "correction"},
      {"dense-layers=1,,2", "dense-layers"},
      {"dense-heads=1", "dense-heads"},
      {"dense-heads=1:", "dense-heads"},
      {"shares=1", "shares"},
      {"shares=1:x", "shares"},
      {"shares=1:-1:0.5", "KV head with a share of layer 1 must be in 0..65536, got -1"},
      {"shares=1:2:0.5:3", "shares"},
      {"shares=1:0.5,", "shares"},
      {"shares=1:1.5", "share of layer 1 must be in 0..1, got 1.5"},
      {"shares=1:nan", "share of layer 1"},
      {"shares=-1:0.5", "layer with a share"},
      {"shares=1:0.5,1:0.6", "name layer 1 twice"},
      {"shares=1:2:0.5,1:2:0.5", "name layer 1, KV head 2, twice"},
      {"rule=threshold:0.1 shares=1:0.5", "shares are of 'rule=share:S'"},
      {"published shares=1:0.5", "shares are of 'rule=share:S'"},
      {"rule=none shares=1:0.5", "shares are of 'rule=share:S'"},
      {"rule=share:0.2 dense-layers=1 shares=1:0.5", "layer 1 has a share and is dense"},
      {"rule=share:0.2 dense-layers=1 shares=1:2:0.5", "layer 1, KV head 2, has a share and is"},
      {"rule=share:0.2 shares=1:2:0.5 dense-heads=1:2", "layer 1, KV head 2, has a share and is"},
      {"block=64 block=128", "block"},
  };
  for (const auto& [text, word] : wrong) {
    const Result<SparsePolicy> policy = ParsePolicy(text, SparsePolicy());
    ASSERT_FALSE(policy.has_value()) << text;
    EXPECT_EQ(policy.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(policy.error().message, AllOf(HasSubstr("sparse policy"), HasSubstr(word))) << text;
  }
}

// Not as wrong syntax: the number is one, and only too large or too small.
TEST(SparsePolicyText, NumbersOutOfRangeAreToldWithTheirRange) {
  const char* const wrong[][2] = {
      {"block=4294967360", "block must be 64 or 128 tokens, got 4294967360"},
      {"tile=4294967360",
       "tile must be a power of two in 1..512 positions, or 'auto' for one by "
       "the group size, got 4294967360"},
      {"sink=100000000000000000000",
       "sink tokens must be in 0..1099511627776, got 100000000000000000000"},
      {"window=-100000000000000000000",
       "window tokens must be in 1..1099511627776, got -100000000000000000000"},
      {"last=100000000000000000000",
       "last tiles must be in 0..1099511627776, got 100000000000000000000"},
      {"min=9223372036854775808",
       "least prompt tokens must be in 0..1099511627776, got 9223372036854775808"},
      {"rule=threshold:1e99", "alpha must be above 0 and at most 1, got 1e99"},
      {"rule=threshold:-1e99", "alpha must be above 0 and at most 1, got -1e99"},
      {"rule=threshold:1e-99", "alpha must be above 0 and at most 1, got 1e-99"},
      {"rule=share:1e999", "share must be above 0 and at most 1, got 1e999"},
      {"rule=share:0.1,2147483648",
       "least number of chosen blocks must be in 0..2147483647, got 2147483648"},
      {"estimate=far:4294967300", "estimates per block must be in 2..8, got 4294967300"},
      {"energy=random:-1", "seed of energy=random must be in 0..18446744073709551615, got -1"},
      {"energy=random:18446744073709551616", "..18446744073709551615, got 18446744073709551616"},
      {"dense-layers=1,4294967303", "dense layer must be in 0..65536, got 4294967303"},
      {"dense-heads=4294967303:0", "dense head's layer must be in 0..65536, got 4294967303"},
      {"dense-heads=0:4294967303", "dense KV head must be in 0..65536, got 4294967303"},
      {"shares=4294967303:0.5", "layer with a share must be in 0..65536, got 4294967303"},
      {"shares=7:4294967303:0.5", "KV head with a share of layer 7 must be in 0..65536, got 429"},
      {"shares=7:1e999", "share of layer 7 must be in 0..1, got 1e999"},
  };
  for (const auto& [text, words] : wrong) {
    const Result<SparsePolicy> policy = ParsePolicy(text, SparsePolicy());
    ASSERT_FALSE(policy.has_value()) << text;
    EXPECT_THAT(policy.error().message, AllOf(HasSubstr("the sparse policy's "), HasSubstr(words)))
        << text;
  }
  // What is quoted does not fill the screen.
  const std::string digits(100'000, '7');
  for (const char* const word : {"window=", "dense-layers=x", "shares=", "rule=share:0.1,"}) {
    const Result<SparsePolicy> policy = ParsePolicy(word + digits, SparsePolicy());
    ASSERT_FALSE(policy.has_value()) << word;
    EXPECT_LT(policy.error().message.size(), 300u) << word;
  }
  // Too small a share to tell from none is none.
  EXPECT_EQ(ParsePolicy("shares=1:1e-400", DefaultSparsePolicy())->shares[0].share, 0);
}

}  // namespace
}  // namespace baton
