#include "schedule/step_time_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.h"

namespace baton {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// About SmolLM2 on two slow threads.
constexpr StepTimeCoefficients kTruth = {.per_step = 2e-3,
                                         .per_prefill_token = 1.5e-3,
                                         .per_prefill_context = 4e-7,
                                         .per_decode_row = 3e-3,
                                         .per_decode_context = 1.5e-6};

double TrueSeconds(const StepTimeCoefficients& truth, const StepFeatures& features) {
  return truth.per_step + truth.per_prefill_token * features.prefill_tokens +
         truth.per_prefill_context * features.prefill_context +
         truth.per_decode_row * features.decode_rows +
         truth.per_decode_context * features.decode_context;
}

// Mixed steps of all sizes.
class RandomSteps {
 public:
  explicit RandomSteps(uint64_t seed) : random_({.seed = seed, .stream = 0}) {}

  int64_t Below(int64_t bound) {
    return static_cast<int64_t>(random_.NextBelow(static_cast<uint64_t>(bound)));
  }
  StepFeatures Prefill() {
    StepFeatures features;
    features.AddPrefill(1 + Below(1024), Below(8000));
    return features;
  }
  StepFeatures Decode() {
    StepFeatures features;
    for (int64_t rows = 1 + Below(16); rows > 0; --rows) features.AddDecode(1 + Below(6000));
    return features;
  }
  StepFeatures Mixed() {
    if (Below(3) == 0) return Prefill();
    StepFeatures features = Decode();
    if (Below(2) == 0) features.AddPrefill(1 + Below(512), Below(8000));
    return features;
  }
  double Noisy(double seconds, double noise) {
    return seconds * std::max(1 + noise * random_.NextNormal(), 0.1);
  }
  double Uniform() { return random_.NextUniform(); }

 private:
  RandomStream random_;
};

// The largest relative error of predictions for new steps.
template <typename MakeStep>
double LargestError(const StepTimeModel& model, const StepTimeCoefficients& truth,
                    const MakeStep& make_step) {
  double largest = 0;
  for (int i = 0; i < 300; ++i) {
    const StepFeatures features = make_step();
    const double expected = TrueSeconds(truth, features);
    largest = std::max(largest, std::abs(model.Predict(features) / expected - 1));
  }
  return largest;
}

TEST(StepFeatures, SumWhatEachTokenAttendsTo) {
  StepFeatures features;
  double expected = 0;
  for (int64_t position = 700; position < 900; ++position) {
    expected += static_cast<double>(position + 1);
  }
  features.AddPrefill(200, 700);
  features.AddDecode(31);
  features.AddDecode(4);
  EXPECT_EQ(features, (StepFeatures{.prefill_tokens = 200,
                                    .prefill_context = expected,
                                    .decode_rows = 2,
                                    .decode_context = 35}));
}

TEST(StepTimeModel, FindsTheCoefficientsOfNoisyTimes) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    RandomSteps steps(seed);
    StepTimeModel model;
    for (int i = 0; i < 1000; ++i) {
      const StepFeatures features = steps.Mixed();
      ASSERT_TRUE(model.Observe(features, steps.Noisy(TrueSeconds(kTruth, features), 0.03)));
    }
    // 3 % of noise over a memory of 200 steps: 3 % / √(200/5) ≈ 0.5 % for a prediction.
    EXPECT_LT(LargestError(model, kTruth, [&] { return steps.Mixed(); }), 0.04) << seed;
    const StepTimeCoefficients found = model.coefficients();
    EXPECT_NEAR(found.per_prefill_token / kTruth.per_prefill_token, 1, 0.05) << seed;
    EXPECT_NEAR(found.per_prefill_context / kTruth.per_prefill_context, 1, 0.10) << seed;
    EXPECT_NEAR(found.per_decode_row / kTruth.per_decode_row, 1, 0.10) << seed;
    EXPECT_NEAR(found.per_decode_context / kTruth.per_decode_context, 1, 0.10) << seed;
    // The mean of |noise| is 0.8 of its standard deviation.
    EXPECT_NEAR(model.usual_residual(), 0.8 * 0.03, 0.012) << seed;
  }
}

TEST(StepTimeModel, ExactTimesAreFittedExactly) {
  RandomSteps steps(1);
  StepTimeModel model;
  for (int i = 0; i < 400; ++i) {
    const StepFeatures features = steps.Mixed();
    model.Observe(features, TrueSeconds(kTruth, features));
  }
  EXPECT_LT(LargestError(model, kTruth, [&] { return steps.Mixed(); }), 1e-3);
}

TEST(StepTimeModel, DelayedStepsMoveItLittle) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    RandomSteps steps(seed);
    StepTimeModel model;
    for (int i = 0; i < 1000; ++i) {
      const StepFeatures features = steps.Mixed();
      double seconds = steps.Noisy(TrueSeconds(kTruth, features), 0.02);
      if (steps.Below(20) == 0) seconds *= 2 + 18 * steps.Uniform();
      if (steps.Below(200) == 0) seconds += 30;
      model.Observe(features, seconds);
    }
    EXPECT_LT(LargestError(model, kTruth, [&] { return steps.Mixed(); }), 0.08) << seed;
  }
}

TEST(StepTimeModel, AFirstStepTenTimesTooSlowIsSoonForgotten) {
  RandomSteps steps(3);
  StepTimeModel model;
  for (int i = 0; i < 60; ++i) {
    const StepFeatures features = steps.Mixed();
    model.Observe(features, TrueSeconds(kTruth, features) * (i < 2 ? 10 : 1));
  }
  EXPECT_LT(LargestError(model, kTruth, [&] { return steps.Mixed(); }), 0.05);
}

TEST(StepTimeModel, AFewMeasuredPointsAreASeed) {
  RandomSteps steps(4);
  StepTimeModel model;
  const auto observe = [&](const StepFeatures& features) {
    model.Observe(features, TrueSeconds(kTruth, features));
  };
  for (const int64_t tokens : {32, 256}) {
    for (const int64_t computed : {0, 2048}) {
      StepFeatures features;
      features.AddPrefill(tokens, computed);
      observe(features);
    }
  }
  for (const int rows : {1, 8}) {
    for (const int64_t context : {64, 2048}) {
      StepFeatures features;
      for (int i = 0; i < rows; ++i) features.AddDecode(context);
      observe(features);
    }
  }
  EXPECT_LT(LargestError(model, kTruth, [&] { return steps.Mixed(); }), 0.15);
}

TEST(StepTimeModel, FollowsAMachineThatBecameSlower) {
  RandomSteps steps(5);
  StepTimeModel model;
  StepTimeCoefficients slower = kTruth;
  for (double* c : {&slower.per_step, &slower.per_prefill_token, &slower.per_prefill_context,
                    &slower.per_decode_row, &slower.per_decode_context}) {
    *c *= 2;
  }
  for (int i = 0; i < 1800; ++i) {
    const StepFeatures features = steps.Mixed();
    model.Observe(features, steps.Noisy(TrueSeconds(i < 1000 ? kTruth : slower, features), 0.02));
    if (i == 999) {
      EXPECT_LT(LargestError(model, kTruth, [&] { return steps.Mixed(); }), 0.05);
    }
  }
  EXPECT_LT(LargestError(model, slower, [&] { return steps.Mixed(); }), 0.10);
}

TEST(StepTimeModel, HoursOfDecodeLeaveWhatIsKnownOfPrefill) {
  RandomSteps steps(6);
  StepTimeModel model;
  for (int i = 0; i < 500; ++i) {
    const StepFeatures features = steps.Mixed();
    model.Observe(features, steps.Noisy(TrueSeconds(kTruth, features), 0.02));
  }
  StepFeatures decode;
  decode.AddDecode(1000);
  for (int i = 0; i < 10000; ++i) {
    model.Observe(decode, steps.Noisy(TrueSeconds(kTruth, decode), 0.02));
  }
  EXPECT_NEAR(model.Predict(decode) / TrueSeconds(kTruth, decode), 1, 0.02);
  EXPECT_LT(LargestError(model, kTruth, [&] { return steps.Prefill(); }), 0.05);
}

TEST(StepTimeModel, WithPrefillAloneItPredictsPrefill) {
  RandomSteps steps(7);
  StepTimeModel model;
  for (int i = 0; i < 300; ++i) {
    const StepFeatures features = steps.Prefill();
    model.Observe(features, steps.Noisy(TrueSeconds(kTruth, features), 0.02));
  }
  EXPECT_LT(LargestError(model, kTruth, [&] { return steps.Prefill(); }), 0.05);
  EXPECT_EQ(model.coefficients().per_decode_row, 0);
  EXPECT_EQ(model.coefficients().per_decode_context, 0);
}

TEST(StepTimeModel, OneSizeOfChunkAloneDoesNotMakeLargerOnesLookCheap) {
  StepTimeModel model;
  StepFeatures once;
  once.AddPrefill(256, 0);
  for (int i = 0; i < 100; ++i) model.Observe(once, 0.5);
  EXPECT_NEAR(model.Predict(once), 0.5, 0.01);
  StepFeatures twice;
  twice.AddPrefill(512, 0);
  EXPECT_GT(model.Predict(twice), 0.95);
}

// The nearest point without negatives is the one for which no allowed direction leads nearer.
void ExpectNearestWithoutNegatives(const StepTimeModel& model) {
  const StepTimeModel::State& state = model.state();
  const StepTimeCoefficients c = model.coefficients();
  const double units[] = {1.0, 256.0, 256.0 * 2048.0, 8.0, 8.0 * 2048.0};
  const double found[] = {c.per_step, c.per_prefill_token, c.per_prefill_context, c.per_decode_row,
                          c.per_decode_context};
  for (int i = 0; i < 5; ++i) {
    double gradient = 0;
    double size = 0;
    for (int j = 0; j < 5; ++j) {
      const double difference = found[j] * units[j] - state.unconstrained[j];
      gradient += state.information[i][j] * difference;
      size += std::abs(state.information[i][j]) *
              (std::abs(found[j] * units[j]) + std::abs(state.unconstrained[j]));
    }
    ASSERT_GE(found[i], 0);
    ASSERT_GE(gradient, -1e-7 * size) << i;
    if (found[i] > 0) {
      ASSERT_LE(gradient, 1e-7 * size) << i;
    }
  }
}

TEST(StepTimeModel, NoCoefficientIsEverNegativeAndTheRestIsTheBest) {
  int constrained = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    RandomSteps steps(seed);
    StepTimeModel model;
    // Longer contexts look cheaper, decode looks free: nothing without negatives fits.
    const StepTimeCoefficients impossible = {.per_step = 1e-3 * (seed % 3 == 0 ? -1 : 1),
                                             .per_prefill_token = 4e-3,
                                             .per_prefill_context = -3e-7,
                                             .per_decode_row = seed % 2 == 0 ? -1e-4 : 5e-3,
                                             .per_decode_context = 1e-7};
    for (int i = 0; i < 300; ++i) {
      const StepFeatures features = steps.Mixed();
      model.Observe(features, std::max(steps.Noisy(TrueSeconds(impossible, features), 0.02), 1e-4));
      ASSERT_NO_FATAL_FAILURE(ExpectNearestWithoutNegatives(model)) << seed << ' ' << i;
      constrained += model.coefficients().per_prefill_context == 0 ? 1 : 0;
    }
  }
  EXPECT_GT(constrained, 2000);
}

TEST(StepTimeModel, RefusesWhatNoStepCanBe) {
  RandomSteps steps(8);
  StepTimeModel model;
  for (int i = 0; i < 50; ++i) {
    const StepFeatures features = steps.Mixed();
    model.Observe(features, TrueSeconds(kTruth, features));
  }
  const StepTimeModel::State before = model.state();
  const StepFeatures good = steps.Mixed();
  for (const double seconds : {0.0, -1.0, 1e9, kNaN, kInfinity, -kInfinity, 1e-300}) {
    EXPECT_FALSE(model.Observe(good, seconds)) << seconds;
  }
  for (const double bad : {-1.0, 1e-9, 0.5, 1e16, kNaN, kInfinity, -kInfinity}) {
    for (int which = 0; which < 4; ++which) {
      StepFeatures features = good;
      double* fields[] = {&features.prefill_tokens, &features.prefill_context,
                          &features.decode_rows, &features.decode_context};
      *fields[which] = bad;
      EXPECT_FALSE(model.Observe(features, 0.1)) << bad << ' ' << which;
      const double predicted = model.Predict(features);
      EXPECT_TRUE(std::isfinite(predicted) && predicted >= 0) << bad << ' ' << which;
    }
  }
  EXPECT_EQ(model.state(), before);
}

TEST(StepTimeModel, AnythingAcceptedLeavesItFiniteAndNotNegative) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    RandomSteps steps(seed);
    StepTimeModel model;
    // Any size from nothing to the limit, in any order.
    const auto any = [&](double least, double most) {
      if (steps.Below(4) == 0) return 0.0;
      return std::clamp(least * std::pow(most / least, steps.Uniform()), least, most);
    };
    for (int i = 0; i < 500; ++i) {
      const StepFeatures features = {.prefill_tokens = any(1, 1e15),
                                     .prefill_context = any(1, 1e15),
                                     .decode_rows = any(1, 1e15),
                                     .decode_context = any(1, 1e15)};
      model.Observe(features, steps.Below(2) == 0 ? 1e-7 : std::max(any(1e-7, 1e5), 1e-7));
      const double predicted = model.Predict(steps.Mixed());
      ASSERT_TRUE(std::isfinite(predicted) && predicted >= 0) << seed << ' ' << i;
      const StepTimeCoefficients c = model.coefficients();
      for (const double x : {c.per_step, c.per_prefill_token, c.per_prefill_context,
                             c.per_decode_row, c.per_decode_context}) {
        ASSERT_TRUE(std::isfinite(x) && x >= 0) << seed << ' ' << i;
      }
    }
    // It is not lost for ever either.
    for (int i = 0; i < 10000; ++i) {
      const StepFeatures features = steps.Mixed();
      model.Observe(features, TrueSeconds(kTruth, features));
    }
    EXPECT_LT(LargestError(model, kTruth, [&] { return steps.Mixed(); }), 0.2) << seed;
  }
}

StepTimeModel TrueModel() {
  RandomSteps steps(9);
  StepTimeModel model;
  for (int i = 0; i < 400; ++i) {
    const StepFeatures features = steps.Mixed();
    model.Observe(features, TrueSeconds(kTruth, features));
  }
  return model;
}

TEST(StepTimeModel, LargestChunkIsTheLargestThatFits) {
  const StepTimeModel model = TrueModel();
  RandomSteps steps(10);
  int partial = 0;
  for (int i = 0; i < 2000; ++i) {
    ChunkQuery query = {.budget_seconds = 2 * steps.Uniform(),
                        .base = steps.Decode(),
                        .computed = steps.Below(4000),
                        .max_tokens = steps.Below(2000),
                        .granularity = 128};
    int64_t expected = 0;
    for (int64_t n = 1; n <= query.max_tokens; ++n) {
      if ((query.computed + n) % 128 != 0 && n != query.max_tokens) continue;
      StepFeatures features = query.base;
      features.AddPrefill(n, query.computed);
      if (model.Predict(features) <= query.budget_seconds) expected = n;
    }
    const int64_t found = model.LargestChunk(query);
    ASSERT_EQ(found, expected) << i;
    partial += found > 0 && found < query.max_tokens ? 1 : 0;
    query.budget_seconds *= 1.5;
    ASSERT_GE(model.LargestChunk(query), found) << "grows with the budget";
    query.budget_seconds = kInfinity;
    ASSERT_EQ(model.LargestChunk(query), query.max_tokens);
    query.budget_seconds = kNaN;
    ASSERT_EQ(model.LargestChunk(query), 0);
  }
  EXPECT_GT(partial, 300);
}

TEST(StepTimeModel, LargestChunkFallsWithTheContext) {
  const StepTimeModel model = TrueModel();
  int64_t before = INT64_MAX;
  for (int64_t computed = 0; computed < 64 * 1024; computed += 1024) {
    const int64_t chunk = model.LargestChunk({.budget_seconds = 1.0,
                                              .base = {},
                                              .computed = computed,
                                              .max_tokens = 100000,
                                              .granularity = 128});
    EXPECT_LE(chunk, before);
    before = chunk;
  }
  EXPECT_LT(before, 128 * 2);
}

TEST(StepTimeModel, WithoutAPrefillObservedTheChunkIsTheSmallest) {
  StepTimeModel model;
  const ChunkQuery query = {
      .budget_seconds = 1.0, .base = {}, .computed = 100, .max_tokens = 5000, .granularity = 128};
  EXPECT_EQ(model.Predict({.prefill_tokens = 100}), 0);
  EXPECT_EQ(model.LargestChunk(query), 28);
  model.Observe({.decode_rows = 1, .decode_context = 100}, 0.01);
  EXPECT_EQ(model.LargestChunk(query), 28);
}

TEST(StepTimeModel, GoesOnFromItsState) {
  RandomSteps steps(11);
  StepTimeModel model;
  for (int i = 0; i < 100; ++i) {
    const StepFeatures features = steps.Mixed();
    model.Observe(features, steps.Noisy(TrueSeconds(kTruth, features), 0.05));
  }
  auto other = StepTimeModel::FromState(model.state());
  ASSERT_TRUE(other.has_value());
  for (int i = 0; i < 100; ++i) {
    const StepFeatures features = steps.Mixed();
    ASSERT_EQ(other->Predict(features), model.Predict(features));
    const double seconds = steps.Noisy(TrueSeconds(kTruth, features), 0.05);
    model.Observe(features, seconds);
    other->Observe(features, seconds);
  }
  EXPECT_EQ(other->state(), model.state());
  EXPECT_TRUE(StepTimeModel::FromState(StepTimeModel().state()).has_value());
}

TEST(StepTimeModel, RefusesAStateThatNoFitCanHave) {
  const StepTimeModel::State good = TrueModel().state();
  const auto accepts = [&](auto spoil) {
    StepTimeModel::State state = good;
    spoil(state);
    return StepTimeModel::FromState(state).has_value();
  };
  using State = StepTimeModel::State;
  EXPECT_TRUE(accepts([](State&) {}));
  EXPECT_FALSE(accepts([](State& s) { s.unconstrained[2] = kNaN; }));
  EXPECT_FALSE(accepts([](State& s) { s.information[1][1] = -1; }));
  EXPECT_FALSE(accepts([](State& s) { s.information[1][1] = kInfinity; }));
  EXPECT_FALSE(accepts([](State& s) { s.information[1][2] += 1; }));
  EXPECT_FALSE(accepts([](State& s) { s.usual_information[0] = -1; }));
  EXPECT_FALSE(accepts([](State& s) { s.usual_residual = kNaN; }));
  EXPECT_FALSE(accepts([](State& s) { s.usual_residual = 0; }));
  EXPECT_FALSE(accepts([](State& s) { s.num_observed = -1; }));
  EXPECT_FALSE(accepts([](State& s) { s = {}; }));
}

}  // namespace
}  // namespace baton
