#include "evaluate/tune.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "engine/test_tiny_file.h"
#include "evaluate/divergence.h"

namespace baton {
namespace {

TEST(BreakEven, LiesWhereTheLastSlowerLengthGoesOverIntoFasterOnes) {
  EXPECT_EQ(BreakEvenOf({}), std::nullopt);
  EXPECT_EQ(BreakEvenOf({{.num_tokens = 512, .ratio = 1.0}}), std::nullopt);
  // So near to 1 it may be chance; and of shorter prompts nothing is known.
  EXPECT_EQ(BreakEvenOf({{.num_tokens = 512, .ratio = 0.98}}), std::nullopt);
  EXPECT_EQ(BreakEvenOf({{.num_tokens = 512, .ratio = 0.9}}), 512);
  EXPECT_EQ(BreakEvenOf({{.num_tokens = 512, .ratio = 0.9}, {.num_tokens = 1024, .ratio = 1.1}}),
            std::nullopt);
  // 1.1 at 512, 0.9 at 1,024: 0.97 lies at 65 % of the way. What is faster before a slower one is
  // not trusted.
  EXPECT_EQ(BreakEvenOf({{.num_tokens = 256, .ratio = 0.8},
                         {.num_tokens = 512, .ratio = 1.1},
                         {.num_tokens = 1024, .ratio = 0.9},
                         {.num_tokens = 2048, .ratio = 0.7}}),
            844);
}

class TuneTest : public testing::Test {
 protected:
  TuneTest() {
    Result<LoadedModel> model = LoadModel(
        {.path = file_.path(), .isa = BestIsa(), .num_threads = 2, .context_tokens = 1536},
        nullptr);
    CHECK(model.has_value());
    model_.emplace(*std::move(model));
    for (const int64_t count : {1536, 1100}) {
      std::vector<TokenId>& text = options_.texts.emplace_back();
      for (int64_t i = 0; i < count; ++i) {
        text.push_back(static_cast<TokenId>(kTinyFirstWord + (i * i + count) % 50));
      }
    }
  }

  const TinyFile file_{TinyModel{.layers = 4}};
  std::optional<LoadedModel> model_;
  TuneOptions options_;
  const std::atomic<bool> go_on_ = false;
};

// What is chosen keeps to what was asked, by the same measure from outside, and nothing that was
// tried and is sparser does.
TEST_F(TuneTest, ChoosesTheSparsestThatWasTriedAndKeepsToTheDivergence) {
  options_.induction_limit = 0.02;
  int64_t last = 0;
  const auto progress = [&](int64_t done, int64_t total) {
    EXPECT_GE(done, 0);
    EXPECT_LE(done, total);
    last = done;
  };
  const Result<TuneResult> loose = Tune(*model_, options_, progress, go_on_);
  ASSERT_TRUE(loose.has_value()) << loose.error().message;
  EXPECT_GT(last, 0);
  // A bound between what the sparsest and the densest lose.
  double most = 0;
  double least = 1e9;
  for (const TuneTrial& trial : loose->trials) {
    if (trial.policy.rule != SelectionRule::kShare) continue;
    most = std::max(most, trial.kl);
    least = std::min(least, trial.kl);
  }
  ASSERT_LT(least, most);
  options_.max_kl = std::sqrt(least * most);
  const Result<TuneResult> result = Tune(*model_, options_, nullptr, go_on_);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  ASSERT_TRUE(result->meets_kl);
  EXPECT_LE(result->chosen.kl, options_.max_kl);
  for (const TuneTrial& trial : result->trials) {
    if (trial.policy.rule != result->chosen.policy.rule) continue;
    if (trial.kl <= options_.max_kl) {
      EXPECT_GE(trial.density, result->chosen.density);
    }
  }
  double kl = 0;
  for (const std::vector<TokenId>& text : options_.texts) {
    DivergenceOptions wanted;
    wanted.sets = LastAndSpread(std::ssize(text), 512);
    wanted.policies = {result->chosen.policy};
    const auto measured = MeasureDivergence(*model_, text, wanted, nullptr, go_on_);
    ASSERT_TRUE(measured.has_value());
    for (const DivergenceFigures& set : measured->policies[0].sets) kl += set.mean / 4;
  }
  EXPECT_NEAR(kl, result->chosen.kl, 1e-12);
  EXPECT_EQ(result->layers.size(), 4u);
  ASSERT_EQ(result->timings.size(), 3u);  // 512, 1,024 and the longest text
  EXPECT_EQ(result->timings.back().num_tokens, 1536);
  for (const TuneTiming& timing : result->timings) EXPECT_GT(timing.ratio, 0);
  // The heads above the limit are dense, and no others.
  size_t above = 0;
  for (const InductionHead& head : result->induction) {
    const bool is_listed = IsDenseHead({.dense_heads = result->chosen.policy.dense_heads},
                                       {.layer = head.layer, .kv_head = head.kv_head});
    EXPECT_EQ(is_listed, head.score > options_.induction_limit);
    above += is_listed ? 1 : 0;
  }
  EXPECT_EQ(above, result->chosen.policy.dense_heads.size());
  const auto json = nlohmann::json::parse(TuneJson(*result, options_));
  EXPECT_EQ(json["kl"], result->chosen.kl);
  EXPECT_EQ(json["trials"].size(), result->trials.size());
}

// Lists of dense layers are compared at equal density, and the one that loses least is taken.
TEST_F(TuneTest, DenseLayersMustBeWorthWhatTheyCost) {
  const TinyFile file{TinyModel{.layers = 8}};
  Result<LoadedModel> model = LoadModel(
      {.path = file.path(), .isa = BestIsa(), .num_threads = 2, .context_tokens = 1536}, nullptr);
  ASSERT_TRUE(model.has_value());
  options_.texts.resize(1);
  options_.induction_limit = 1;
  options_.max_kl = 1e9;  // the sparsest would do
  Result<TuneResult> result = Tune(*model, options_, nullptr, go_on_);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  const auto shares = [&] {
    std::vector<TuneTrial> found = result->trials;
    std::erase_if(
        found, [](const TuneTrial& trial) { return trial.policy.rule != SelectionRule::kShare; });
    return found;
  };
  ASSERT_GE(shares().size(), 5u);
  // The first five have no list; a bound that the fourth of them just keeps to.
  options_.max_kl = shares()[3].kl;
  const double density = shares()[3].density;
  result = Tune(*model, options_, nullptr, go_on_);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  ASSERT_TRUE(result->meets_kl);
  EXPECT_LE(result->chosen.density, density);
  // Lists of no, one and two layers: every fourth of eight.
  const std::vector<TuneTrial> tried = shares();
  ASSERT_GE(tried.size(), 8u);
  std::map<size_t, TuneTrial> lists;
  for (const TuneTrial& trial : std::span(tried).subspan(5, 3)) {
    EXPECT_NEAR(trial.density, density, 0.03) << trial.policy.share;
    lists[trial.policy.dense_layers.size()] = trial;
  }
  ASSERT_EQ(lists.size(), 3u);
  EXPECT_GT(lists[0].policy.share, lists[1].policy.share);
  EXPECT_GT(lists[1].policy.share, lists[2].policy.share);
  // Those that lose most alone come first.
  std::vector<LayerLoss> worst = result->layers;
  std::ranges::stable_sort(worst, std::greater(), &LayerLoss::kl);
  EXPECT_THAT(lists[2].policy.dense_layers,
              testing::UnorderedElementsAre(worst[0].layer, worst[1].layer));
  EXPECT_THAT(lists[1].policy.dense_layers, testing::ElementsAre(worst[0].layer));
}

TEST_F(TuneTest, WhereNothingKeepsToTheBoundTheNearestIsTold) {
  options_.max_kl = -1;
  options_.texts.resize(1);
  const Result<TuneResult> result = Tune(*model_, options_, nullptr, go_on_);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_FALSE(result->meets_kl);
  EXPECT_TRUE(result->timings.empty());
  for (const TuneTrial& trial : result->trials) {
    if (trial.policy.rule != result->chosen.policy.rule) continue;
    EXPECT_GE(trial.kl, result->chosen.kl);
  }
}

TEST_F(TuneTest, TextsOfAWrongLengthAndACancelAreTold) {
  const std::atomic<bool> stop = true;
  EXPECT_EQ(Tune(*model_, options_, nullptr, stop).error().code, ErrorCode::kCancelled);
  options_.texts[1].resize(1023);
  EXPECT_THAT(Tune(*model_, options_, nullptr, go_on_).error().message,
              testing::HasSubstr("got 1,023"));
  options_.texts.clear();
  EXPECT_EQ(Tune(*model_, options_, nullptr, go_on_).error().code, ErrorCode::kInvalid);
}

}  // namespace
}  // namespace baton
