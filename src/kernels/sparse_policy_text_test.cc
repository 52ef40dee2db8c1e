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
      {"shares=1:-1:0.5", "shares"},
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

}  // namespace
}  // namespace baton
