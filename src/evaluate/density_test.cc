// Densities against the formula of what is always kept, and against the engine's own counts.
#include "evaluate/density.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/test_tiny_file.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kTokens = 1000;

LoadedModel Open(const TinyFile& file, int num_threads) {
  Result<LoadedModel> model = LoadModel({.path = file.path(),
                                         .isa = BestIsa(),
                                         .num_threads = num_threads,
                                         .context_tokens = 1024,
                                         .chunk_tokens = 128},
                                        nullptr);
  EXPECT_TRUE(model.has_value()) << model.error().message;
  return *std::move(model);
}

std::vector<TokenId> Tokens() {
  std::vector<TokenId> tokens;
  RandomStream random({.seed = 8, .stream = 1});
  for (int64_t i = 0; i < kTokens; ++i) {
    tokens.push_back(static_cast<TokenId>(random.NextBelow(300)));
  }
  return tokens;
}

Result<DensityResult> Measure(LoadedModel& model, const DensityOptions& options) {
  const std::atomic<bool> cancel = false;
  return MeasureDensity(model, Tokens(), options, nullptr, cancel);
}

TEST(Density, IsThatOfSinkWindowAndTailWhenNothingIsChosen) {
  const TinyFile file(TinyModel{});
  LoadedModel model = Open(file, 2);
  const SparsePolicy policy = {.rule = SelectionRule::kNone,
                               .sink_tokens = 64,
                               .window_tokens = 128,
                               .last_tiles = 2,
                               .dense_heads = {{.layer = 1, .kv_head = 0}}};
  const Result<DensityResult> result =
      Measure(model, {.policy = policy, .map = DenseHead{.layer = 0, .kv_head = 1}});
  ASSERT_TRUE(result.has_value()) << result.error().message;
  // 16 tiles of 64 positions: the nth sees n + 1 blocks and keeps the first, its own and the one
  // before; the last two keep all.
  int64_t kept = 0;
  int64_t candidates = 0;
  for (int64_t n = 0; n < 16; ++n) {
    candidates += n + 1;
    kept += n >= 14 ? n + 1 : std::min<int64_t>(n + 1, 3);
  }
  for (int layer = 0; layer < 2; ++layer) {
    BlockCounts sum;
    for (int head = 0; head < 2; ++head) {
      const BlockCounts& counts =
          result->counts[static_cast<size_t>(layer)][static_cast<size_t>(head)];
      EXPECT_EQ(counts.candidates, candidates);
      EXPECT_EQ(counts.kept, layer == 1 && head == 0 ? candidates : kept);
      sum.kept += counts.kept;
      sum.candidates += counts.candidates;
    }
    EXPECT_EQ(result->report.layers[static_cast<size_t>(layer)].kept, sum.kept);
    EXPECT_EQ(result->report.layers[static_cast<size_t>(layer)].candidates, sum.candidates);
  }
  ASSERT_TRUE(result->map.has_value());
  ASSERT_EQ(result->map->tiles.size(), 16u);
  EXPECT_THAT(result->map->tiles[10].kept, testing::ElementsAre(0, 9, 10));
  EXPECT_FALSE(result->map->tiles[13].is_dense);
  EXPECT_TRUE(result->map->tiles[14].is_dense);
}

TEST(Density, RefusesAMapThatTheModelDoesNotHave) {
  const TinyFile file(TinyModel{});
  LoadedModel model = Open(file, 1);
  const Result<DensityResult> result =
      Measure(model, {.policy = {}, .map = DenseHead{.layer = 2, .kv_head = 0}});
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error().message,
              HasSubstr("layer must be in 0..1 and its KV head in 0..1, got 2:0"));
}

}  // namespace
}  // namespace baton
