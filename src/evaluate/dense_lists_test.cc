#include "evaluate/dense_lists.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace baton {
namespace {

using ::testing::ElementsAre;

std::vector<int> Layers(int count) {
  std::vector<int> layers(static_cast<size_t>(count));
  std::iota(layers.begin(), layers.end(), 0);
  return layers;
}

TuneTrial Trial(double share, double density, double kl) {
  SparsePolicy policy{.rule = SelectionRule::kShare};
  return {.policy = WithParameter(policy, share), .kl = kl, .density = density};
}

TEST(WithParameter, RoundsToWhatIsWritten) {
  EXPECT_EQ(ParameterOf(WithParameter({.rule = SelectionRule::kShare}, 0.12345)), 0.123);
  EXPECT_EQ(ParameterOf(WithParameter({.rule = SelectionRule::kThreshold}, 0.0312349)),
            static_cast<double>(0.03123f));
}

TEST(KlAtDensity, IsLogarithmicBetweenTrialsAndHasAnInverse) {
  const std::vector<TuneTrial> trials = {Trial(0.1, 0.2, 0.08), Trial(0.2, 0.4, 0.02),
                                         Trial(0.4, 0.8, 0.005)};
  EXPECT_DOUBLE_EQ(KlAtDensity(trials, 0.1), 0.08);
  EXPECT_DOUBLE_EQ(KlAtDensity(trials, 0.4), 0.02);
  EXPECT_NEAR(KlAtDensity(trials, 0.3), std::sqrt(0.08 * 0.02), 1e-12);
  EXPECT_NEAR(KlAtDensity(trials, 0.6), std::sqrt(0.02 * 0.005), 1e-12);
  EXPECT_DOUBLE_EQ(KlAtDensity(trials, 0.9), 0.005);
  EXPECT_NEAR(DensityAtKl(trials, 0.04), 0.3, 1e-9);
  EXPECT_DOUBLE_EQ(DensityAtKl(trials, 1), 0.2);
  EXPECT_DOUBLE_EQ(DensityAtKl(trials, 0.001), 0.8);
  EXPECT_DOUBLE_EQ(KlAtDensity({trials[1]}, 0.9), 0.02);
}

TEST(DenseLists, GrowUpToEveryFourthLayer) {
  EXPECT_THAT(DenseLists(Layers(3), 1).Lengths(), ElementsAre(0));
  EXPECT_THAT(DenseLists(Layers(4), 1).Lengths(), ElementsAre(0, 1));
  EXPECT_THAT(DenseLists(Layers(30), 3).Lengths(), ElementsAre(0, 1, 2, 3, 4, 6));
  EXPECT_THAT(DenseLists(Layers(80), 8).Lengths(), ElementsAre(0, 1, 2, 3, 4, 6, 8, 12, 16));
}

// What counts is the loss that a dense layer takes away for each head that it adds.
TEST(DenseLists, RankByTheLossOfEachHeadThatIsNotDense) {
  DenseLists lists(Layers(5), 4);
  lists.SetDenseHeads({{.layer = 1, .kv_head = 0},
                       {.layer = 1, .kv_head = 3},
                       {.layer = 4, .kv_head = 0},
                       {.layer = 4, .kv_head = 1},
                       {.layer = 4, .kv_head = 2},
                       {.layer = 4, .kv_head = 3}});
  // For each head: .25, .5, .25, .75 and, with none left, nothing.
  lists.Rank({{.layer = 0, .kl = 1},
              {.layer = 1, .kl = 1},
              {.layer = 2, .kl = 1},
              {.layer = 3, .kl = 3},
              {.layer = 4, .kl = 9}});
  EXPECT_THAT(lists.First(0), ElementsAre());
  EXPECT_THAT(lists.First(1), ElementsAre(3));
  EXPECT_THAT(lists.First(3), ElementsAre(0, 1, 3));
  EXPECT_THAT(lists.First(4), ElementsAre(0, 1, 2, 3));
  // 6 of 20 heads, then with the layers' own that were not dense yet.
  EXPECT_DOUBLE_EQ(lists.DenseShare(0), 0.3);
  EXPECT_DOUBLE_EQ(lists.DenseShare(1), 0.5);
  EXPECT_DOUBLE_EQ(lists.DenseShare(2), 0.6);
  EXPECT_DOUBLE_EQ(lists.DenseShare(5), 1);
}

// A longer list leaves a smaller share of blocks to the other layers.
TEST(DenseLists, TheShareOfAListKeepsTheDensity) {
  DenseLists lists(Layers(8), 2);
  const std::vector<TuneTrial> shares = {Trial(0.1, 0.2, 0), Trial(0.3, 0.4, 0),
                                         Trial(0.5, 0.6, 0)};
  // In a layer that is sparse a share s has the density s + .1.
  EXPECT_NEAR(*lists.ShareFor(0, 0.5, shares), 0.4, 1e-12);
  // One layer of eight: 1/8 + 7/8 * d = .5.
  EXPECT_NEAR(*lists.ShareFor(1, 0.5, shares), (0.5 - 0.125) / 0.875 - 0.1, 1e-12);
  EXPECT_NEAR(*lists.ShareFor(2, 0.5, shares), (0.5 - 0.25) / 0.75 - 0.1, 1e-12);
  EXPECT_EQ(lists.ShareFor(4, 0.5, shares), std::nullopt);
  EXPECT_EQ(lists.ShareFor(0, 0.99, {Trial(0.9, 0.9, 0), Trial(0.95, 0.95, 0)}), 0.99);
  EXPECT_EQ(lists.ShareFor(0, 2, shares), 1.0);
  EXPECT_EQ(lists.ShareFor(0, 0.5, {Trial(0.1, 0.5, 0), Trial(0.3, 0.5, 0)}), std::nullopt);
}

}  // namespace
}  // namespace baton
