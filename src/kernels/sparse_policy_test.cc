#include "kernels/sparse_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace baton {
namespace {

using testing::HasSubstr;

struct BadPolicy {
  std::function<void(SparsePolicy&)> spoil;
  std::vector<std::string> words;  // field, value, range
};

TEST(SparsePolicyTest, RefusesWhatCannotBeWithFieldValueAndRange) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const std::vector<BadPolicy> cases = {
      {[](SparsePolicy& p) { p.alpha = -0.1f; }, {"alpha", "from 0 on", "-0.1"}},
      {[](SparsePolicy& p) { p.alpha = kNaN; }, {"alpha", "from 0 on", "nan"}},
      {[](SparsePolicy& p) { p.alpha = HUGE_VALF; }, {"alpha", "from 0 on", "inf"}},
      {[](SparsePolicy& p) {
         p.alpha = 1.5f;
         p.last_tiles = 0;
       },
       {"alpha", "0..1", "tail", "1.5"}},
      {[](SparsePolicy& p) {
         p.rule = SelectionRule::kShare;
         p.share = 0.0;
       },
       {"share", "above 0 and at most 1", "got 0"}},
      {[](SparsePolicy& p) {
         p.rule = SelectionRule::kShare;
         p.share = 1.01;
       },
       {"share", "at most 1", "1.01"}},
      {[](SparsePolicy& p) {
         p.rule = SelectionRule::kShare;
         p.share = std::nan("");
       },
       {"share", "nan"}},
      {[](SparsePolicy& p) {
         p.rule = SelectionRule::kShare;
         p.min_blocks = -1;
       },
       {"chosen blocks", "-1"}},
      {[](SparsePolicy& p) { p.window_tokens = 0; }, {"window", "1..", "got 0"}},
      {[](SparsePolicy& p) { p.sink_tokens = -1; }, {"sink", "0..", "got -1"}},
      {[](SparsePolicy& p) { p.last_tiles = -1; }, {"last tiles", "0..", "got -1"}},
      {[](SparsePolicy& p) { p.min_prompt_tokens = -7; }, {"prompt tokens", "got -7"}},
      {[](SparsePolicy& p) { p.tile_positions = 24; }, {"tile", "power of two", "got 24"}},
      {[](SparsePolicy& p) { p.tile_positions = -8; }, {"tile", "power of two", "got -8"}},
      {[](SparsePolicy& p) { p.tile_positions = 1024; }, {"tile", "1..512", "got 1024"}},
      {[](SparsePolicy& p) { p.block_tokens = 96; }, {"block", "64 or 128", "got 96"}},
      {[](SparsePolicy& p) { p.block_tokens = 0; }, {"block", "64 or 128", "got 0"}},
      {[](SparsePolicy& p) {
         p.estimate = BlockEstimate::kFar;
         p.num_estimates = 65;
       },
       {"estimates", "2..8", "got 65"}},
      {[](SparsePolicy& p) {
         p.estimate = BlockEstimate::kFar;
         p.num_estimates = 1;
       },
       {"estimates", "2..8", "got 1"}},
      {[](SparsePolicy& p) { p.dense_layers = {-1}; }, {"dense layer", "got -1"}},
      {[](SparsePolicy& p) {
         p.dense_heads = {{2, -1}};
       },
       {"dense KV head", "got -1"}},
  };
  for (const BadPolicy& bad : cases) {
    SparsePolicy policy;
    bad.spoil(policy);
    const Result<> valid = ValidatePolicy(policy);
    ASSERT_FALSE(valid.has_value()) << bad.words[0];
    EXPECT_EQ(valid.error().code, ErrorCode::kInvalid);
    for (const std::string& word : bad.words) EXPECT_THAT(valid.error().message, HasSubstr(word));
  }
}

TEST(SparsePolicyTest, TakesTheEdgesOfEveryRange) {
  EXPECT_TRUE(ValidatePolicy({}).has_value());
  EXPECT_TRUE(ValidatePolicy({.alpha = 0.0f}).has_value());
  EXPECT_TRUE(ValidatePolicy({.alpha = 1.0f, .last_tiles = 0}).has_value());
  EXPECT_TRUE(ValidatePolicy({.alpha = 2.0f, .last_tiles = 1}).has_value());
  EXPECT_TRUE(ValidatePolicy({.rule = SelectionRule::kShare, .share = 1.0, .min_blocks = 0}));
  EXPECT_TRUE(ValidatePolicy({.rule = SelectionRule::kAll, .alpha = -1.0f}).has_value());
  EXPECT_TRUE(ValidatePolicy({.estimate = BlockEstimate::kFar, .num_estimates = 8}).has_value());
  EXPECT_TRUE(ValidatePolicy({.block_tokens = 128, .tile_positions = 512}).has_value());
  EXPECT_TRUE(ValidatePolicy({.sink_tokens = 0, .window_tokens = 1}).has_value());
}

TEST(SparsePolicyTest, ModelMustHaveTheDenseHeads) {
  const PolicyModel model = {.num_layers = 30, .num_heads = 9, .num_kv_heads = 3};
  EXPECT_TRUE(ValidatePolicyFor({.dense_layers = {29}, .dense_heads = {{0, 2}}}, model));
  const Result<> layer = ValidatePolicyFor({.dense_layers = {30}}, model);
  ASSERT_FALSE(layer.has_value());
  EXPECT_THAT(layer.error().message, HasSubstr("dense layer must be in 0..29, got 30"));
  const Result<> head = ValidatePolicyFor({.dense_heads = {{3, 3}}}, model);
  ASSERT_FALSE(head.has_value());
  EXPECT_THAT(head.error().message, HasSubstr("dense KV head must be in 0..2, got 3"));
  EXPECT_FALSE(ValidatePolicyFor({.window_tokens = 0}, model).has_value());
}

TEST(SparsePolicyTest, ModelMustHaveTheHeadsWithShares) {
  const PolicyModel model = {.num_layers = 30, .num_heads = 9, .num_kv_heads = 3};
  EXPECT_TRUE(ValidatePolicyFor({.shares = {{29, -1, 0.5}, {29, 2, 1.0}}}, model));
  const Result<> layer = ValidatePolicyFor({.shares = {{30, -1, 0.5}}}, model);
  ASSERT_FALSE(layer.has_value());
  EXPECT_THAT(layer.error().message, HasSubstr("layer with a share must be in 0..29, got 30"));
  const Result<> head = ValidatePolicyFor({.shares = {{3, 3, 0.5}}}, model);
  ASSERT_FALSE(head.has_value());
  EXPECT_THAT(head.error().message,
              HasSubstr("KV head with a share of layer 3 must be in 0..2, got 3"));
}

TEST(SparsePolicyTest, AHeadsShareGoesBeforeItsLayersAndThatBeforeTheRules) {
  const SparsePolicy policy = {.rule = SelectionRule::kShare,
                               .share = 0.1,
                               .dense_layers = {9},
                               .shares = {{7, 1, 0.0}, {7, -1, 0.6}, {8, 2, 0.1}, {9, -1, 0.2}}};
  EXPECT_EQ(ShareOfHead(policy, {6, 1}), 0.1);
  EXPECT_EQ(ShareOfHead(policy, {7, 0}), 0.6);
  EXPECT_EQ(ShareOfHead(policy, {7, 1}), 0.0);
  // What changes nothing is not told.
  EXPECT_THAT(PolicyText(policy), HasSubstr(" dense-layers=9 dense-heads= shares=7:0.6,7:1:0"));
  SparsePolicy other = policy;
  other.rule = SelectionRule::kThreshold;
  EXPECT_EQ(PolicyText(other).find("shares"), std::string::npos);
}

// The table of the method: tiles of 65 to 128 rows.
TEST(SparsePolicyTest, TileFollowsFromTheGroupSize) {
  const int expected[] = {0, 128, 64, 32, 32, 16, 16, 16, 16, 8, 8, 8, 8, 8, 8, 8, 8};
  for (int group = 1; group <= 16; ++group) EXPECT_EQ(TilePositions({}, group), expected[group]);
  EXPECT_EQ(TilePositions({}, 200), 1);
  EXPECT_EQ(TilePositions({.tile_positions = 64}, 3), 64);
}

TEST(SparsePolicyTest, DenseLayersHoldAllHeads) {
  const SparsePolicy policy = {.dense_layers = {6, 7}, .dense_heads = {{17, 1}, {23, 0}}};
  EXPECT_TRUE(IsDenseHead(policy, {6, 2}));
  EXPECT_TRUE(IsDenseHead(policy, {17, 1}));
  EXPECT_FALSE(IsDenseHead(policy, {17, 0}));
  EXPECT_FALSE(IsDenseHead(policy, {8, 1}));
}

TEST(SparsePolicyTest, TextTellsPoliciesApartAndOnlyThem) {
  EXPECT_EQ(PolicyText({}),
            "rule=threshold:0.1 estimate=mean block=64 tile=auto sink=256 window=512 last=8 "
            "correction=on min=0 windows=dense dense-layers= dense-heads=");
  EXPECT_EQ(PolicyText({.rule = SelectionRule::kShare,
                        .share = 0.15,
                        .estimate = BlockEstimate::kFar,
                        .tile_positions = 32,
                        .has_correction = false,
                        .dense_layers = {7, 6, 7},
                        .dense_heads = {{18, 2}, {17, 1}, {6, 0}, {17, 1}}}),
            "rule=share:0.15,1 estimate=far:4 block=64 tile=32 sink=256 window=512 last=8 "
            "correction=off min=0 windows=dense dense-layers=6,7 dense-heads=17:1,18:2");
  // What the rule and the estimate do not use makes no difference.
  EXPECT_EQ(PolicyText({.share = 0.5, .num_estimates = 2}), PolicyText({}));
  std::vector<SparsePolicy> all(15);
  all[1].alpha = 0.2f;
  all[2].block_tokens = 128;
  all[3].tile_positions = 16;
  all[4].sink_tokens = 64;
  all[5].window_tokens = 256;
  all[6].last_tiles = 2;
  all[7].has_correction = false;
  all[8].min_prompt_tokens = 4096;
  all[9].has_sparse_windows = true;
  all[10].dense_layers = {0};
  all[11].dense_heads = {{0, 0}};
  for (size_t i = 12; i < 15; ++i) all[i].rule = SelectionRule::kShare;
  all[13].shares = {{0, -1, 0.5}};
  all[14].shares = {{0, 0, 0.5}};
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(PolicyText(all[i]), PolicyText(all[j])) << i << j;
  }
}

}  // namespace
}  // namespace baton
