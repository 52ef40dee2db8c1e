// Divergences against what the engine's own runs give, summed in long double.
#include "evaluate/divergence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "engine/generator.h"
#include "engine/test_tiny_file.h"
#include "evaluate/logit_distance.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kTokens = 900;

SparsePolicy Sparse() {
  return {.rule = SelectionRule::kShare,
          .share = 0.1,
          .estimate = BlockEstimate::kFar,
          .sink_tokens = 64,
          .window_tokens = 64,
          .last_tiles = 1};
}

std::vector<TokenId> Tokens() {
  std::vector<TokenId> tokens;
  RandomStream random({.seed = 5, .stream = 1});
  for (int64_t i = 0; i < kTokens; ++i)
    tokens.push_back(static_cast<TokenId>(random.NextBelow(300)));
  return tokens;
}

LoadedModel Open(const TinyFile& file, int num_threads, std::optional<SparsePolicy> policy) {
  Result<LoadedModel> model = LoadModel({.path = file.path(),
                                         .isa = BestIsa(),
                                         .num_threads = num_threads,
                                         .context_tokens = 1024,
                                         .prefill_policy = std::move(policy)},
                                        nullptr);
  EXPECT_TRUE(model.has_value()) << model.error().message;
  return *std::move(model);
}

// Logits of all positions by the engine.
std::vector<std::vector<float>> EngineLogits(const TinyFile& file,
                                             std::optional<SparsePolicy> policy) {
  LoadedModel model = Open(file, 1, std::move(policy));
  Result<Generator> generator = Generator::Make(model);
  EXPECT_TRUE(generator.has_value());
  std::vector<int64_t> positions(kTokens);
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<std::vector<float>> rows;
  const std::atomic<bool> cancel = false;
  const Result<> done = generator->Logits(
      Tokens(), positions,
      [&](int64_t, std::span<const float> logits) {
        rows.emplace_back(logits.begin(), logits.end());
      },
      cancel);
  EXPECT_TRUE(done.has_value());
  return rows;
}

std::vector<long double> Probabilities(const std::vector<float>& logits) {
  std::vector<long double> p;
  long double sum = 0;
  for (const float logit : logits) sum += p.emplace_back(std::exp(static_cast<long double>(logit)));
  for (long double& x : p) x /= sum;
  return p;
}

long double Kl(const std::vector<float>& dense, const std::vector<float>& sparse) {
  const std::vector<long double> p = Probabilities(dense);
  const std::vector<long double> q = Probabilities(sparse);
  long double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) sum += p[i] * std::log(p[i] / q[i]);
  return sum;
}

Result<DivergenceResult> Measure(LoadedModel& model, const DivergenceOptions& options) {
  const std::atomic<bool> cancel = false;
  return MeasureDivergence(model, Tokens(), options, nullptr, cancel);
}

TEST(Divergence, IsThatOfTheEnginesOwnLogits) {
  const TinyFile file(TinyModel{});
  const auto dense = EngineLogits(file, std::nullopt);
  const auto sparse = EngineLogits(file, Sparse());
  LoadedModel model = Open(file, 2, std::nullopt);
  const Result<DivergenceResult> result =
      Measure(model, {.sets = LastAndSpread(kTokens, 200), .policies = {Sparse()}});
  ASSERT_TRUE(result.has_value()) << result.error().message;
  const PolicyDivergence& one = result->policies[0];
  ASSERT_EQ(one.sets.size(), 2u);
  const std::vector<PositionSet> sets = LastAndSpread(kTokens, 200);
  const std::vector<TokenId> tokens = Tokens();
  for (size_t s = 0; s < sets.size(); ++s) {
    std::vector<double> kl;
    int64_t same = 0;
    long double nll = 0;
    int64_t num_next = 0;
    for (const int64_t position : sets[s].positions) {
      const auto& d = dense[static_cast<size_t>(position)];
      const auto& q = sparse[static_cast<size_t>(position)];
      kl.push_back(static_cast<double>(Kl(d, q)));
      same += std::max_element(d.begin(), d.end()) - d.begin() ==
              std::max_element(q.begin(), q.end()) - q.begin();
      if (position + 1 == kTokens) continue;
      const auto next = static_cast<size_t>(tokens[static_cast<size_t>(position) + 1]);
      nll += std::log(Probabilities(d)[next]) - std::log(Probabilities(q)[next]);
      ++num_next;
    }
    const double mean = std::accumulate(kl.begin(), kl.end(), 0.0) / 200;
    std::sort(kl.begin(), kl.end());
    const DivergenceFigures& figures = one.sets[s];
    EXPECT_EQ(figures.count, 200);
    EXPECT_GT(figures.mean, 0) << sets[s].name;
    EXPECT_NEAR(figures.mean, mean, 1e-9 * mean);
    EXPECT_NEAR(figures.p95, kl[189], 1e-9 * kl[189]);
    EXPECT_NEAR(figures.p99, kl[197], 1e-9 * kl[197]);
    EXPECT_NEAR(figures.max, kl[199], 1e-9 * kl[199]);
    EXPECT_EQ(figures.top1, static_cast<double>(same) / 200);
    EXPECT_NEAR(figures.nll_change, static_cast<double>(nll) / static_cast<double>(num_next), 1e-9);
  }
  EXPECT_EQ(one.report.layers.size(), 2u);
  EXPECT_LT(one.density, 0.7);
  EXPECT_GT(one.report.times.attend, 0);
  EXPECT_TRUE(one.seconds.empty());
}

TEST(Divergence, NothingIsLostWhenAllIsKept) {
  const TinyFile file(TinyModel{});
  LoadedModel model = Open(file, 2, Sparse());  // the model's own policy plays no part
  SparsePolicy all = Sparse();
  all.rule = SelectionRule::kAll;
  const Result<DivergenceResult> result = Measure(
      model, {.sets = LastAndSpread(kTokens, 64), .policies = {all, Sparse()}, .num_rounds = 2});
  ASSERT_TRUE(result.has_value()) << result.error().message;
  for (const DivergenceFigures& figures : result->policies[0].sets) {
    EXPECT_EQ(figures.max, 0);
    EXPECT_EQ(figures.top1, 1);
    EXPECT_EQ(figures.nll_change, 0);
  }
  EXPECT_EQ(result->policies[0].density, 1);
  EXPECT_GT(result->policies[1].sets[0].mean, 0);
  EXPECT_EQ(result->dense_seconds.size(), 2u);
  EXPECT_EQ(result->policies[1].seconds.size(), 2u);
  EXPECT_GT(result->policies[1].time_ratio, 0);
}

TEST(Divergence, IsTheSameForAnyThreadsAndChunk) {
  const TinyFile file(TinyModel{});
  std::vector<DivergenceResult> results;
  for (const int num_threads : {1, 3}) {
    LoadedModel model = Open(file, num_threads, std::nullopt);
    model.options.chunk_tokens = num_threads == 1 ? 512 : 70;
    Result<DivergenceResult> result =
        Measure(model, {.sets = LastAndSpread(kTokens, 50), .policies = {Sparse()}});
    ASSERT_TRUE(result.has_value()) << result.error().message;
    results.push_back(*std::move(result));
  }
  for (size_t s = 0; s < 2; ++s) {
    const DivergenceFigures& a = results[0].policies[0].sets[s];
    const DivergenceFigures& b = results[1].policies[0].sets[s];
    EXPECT_EQ(a.mean, b.mean);
    EXPECT_EQ(a.max, b.max);
    EXPECT_EQ(a.nll_change, b.nll_change);
  }
  EXPECT_EQ(results[0].policies[0].density, results[1].policies[0].density);
}

TEST(Divergence, WindowedLayersAreNoPartOfTheDensity) {
  const TinyFile file({.architecture = "gemma3", .layers = 6, .sliding_window = 128});
  LoadedModel model = Open(file, 1, std::nullopt);
  const Result<DivergenceResult> result =
      Measure(model, {.sets = LastAndSpread(kTokens, 8), .policies = {Sparse()}});
  ASSERT_TRUE(result.has_value()) << result.error().message;
  const PolicyDivergence& one = result->policies[0];
  EXPECT_EQ(one.density, DensityOf(one.report.layers[5]));
  EXPECT_EQ(DensityOf(one.report.layers[0]), 1);
  EXPECT_LT(one.density, 1);
}

TEST(Divergence, RefusesWhatCannotBe) {
  const TinyFile file(TinyModel{});
  LoadedModel model = Open(file, 1, std::nullopt);
  const auto message = [&](const DivergenceOptions& options) {
    const Result<DivergenceResult> result = Measure(model, options);
    return result.has_value() ? "none" : result.error().message;
  };
  EXPECT_THAT(message({.sets = LastAndSpread(kTokens, 8)}), HasSubstr("no sparse policy"));
  EXPECT_THAT(message({.sets = {{"x", {kTokens}}}, .policies = {Sparse()}}),
              HasSubstr("must be in 0..899, got 900 in the set 'x'"));
  EXPECT_THAT(message({.sets = {{"x", {}}}, .policies = {Sparse()}}), HasSubstr("'x' is empty"));
  EXPECT_THAT(
      message({.sets = LastAndSpread(kTokens, 100), .policies = {Sparse()}, .max_bytes = 1000}),
      HasSubstr("ask for fewer positions"));
  SparsePolicy foreign = Sparse();
  foreign.dense_layers = {2};
  EXPECT_THAT(message({.sets = LastAndSpread(kTokens, 8), .policies = {foreign}}),
              HasSubstr("dense layer must be in 0..1, got 2"));
}

TEST(Divergence, StopsWhenCancelled) {
  const TinyFile file(TinyModel{});
  LoadedModel model = Open(file, 1, std::nullopt);
  std::atomic<bool> cancel = false;
  const Result<DivergenceResult> result = MeasureDivergence(
      model, Tokens(), {.sets = LastAndSpread(kTokens, 8), .policies = {Sparse()}},
      [&](int64_t done, int64_t) { cancel = done > kTokens; }, cancel);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kCancelled);
}

TEST(LastAndSpread, CoversThePrompt) {
  const std::vector<PositionSet> sets = LastAndSpread(10, 4);
  EXPECT_EQ(sets[0].name, "last");
  EXPECT_THAT(sets[0].positions, ElementsAre(6, 7, 8, 9));
  EXPECT_EQ(sets[1].name, "spread");
  EXPECT_THAT(sets[1].positions, ElementsAre(1, 3, 6, 8));
  EXPECT_THAT(LastAndSpread(2, 512)[1].positions, ElementsAre(0, 1));
}

TEST(KlDivergence, CountsWhatIsNoNumberAsImpossible) {
  const auto pool = *ThreadPool::Make(1);
  std::vector<double> partials;
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const std::vector<float> p = {0.0f, kNone, std::nanf(""), 0.0f};
  const std::vector<float> q = {0.0f, 1.0f, 2.0f, 0.0f};
  const double log_2 = std::log(2.0);
  const double q_sum = std::log(2 + std::exp(1.0) + std::exp(2.0));
  EXPECT_NEAR(KlDivergence({p, log_2}, {q, q_sum}, *pool, partials), q_sum - log_2, 1e-12);
  EXPECT_EQ(KlDivergence({q, q_sum}, {p, log_2}, *pool, partials), HUGE_VAL);
  EXPECT_EQ(LikeliestToken(std::vector<float>{std::nanf(""), 1.0f, 3.0f, 3.0f}), 2);
}

}  // namespace
}  // namespace baton
