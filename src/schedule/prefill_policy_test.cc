#include "schedule/prefill_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "base/rng.h"

namespace baton {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Knows exactly: 2 ms a step, 1 ms a prompt token, 1 µs a token and position, 5 ms a decode row.
const StepTimeModel& Model() {
  static const StepTimeModel model = [] {
    StepTimeModel fitted;
    RandomStream random({.seed = 1, .stream = 0});
    for (int i = 0; i < 400; ++i) {
      StepFeatures f;
      f.AddPrefill(1 + static_cast<int64_t>(random.NextBelow(512)),
                   static_cast<int64_t>(random.NextBelow(4000)));
      const auto rows = random.NextBelow(8);
      for (uint64_t row = 0; row < rows; ++row) {
        f.AddDecode(1 + static_cast<int64_t>(random.NextBelow(4000)));
      }
      fitted.Observe(
          f, 2e-3 + 1e-3 * f.prefill_tokens + 1e-6 * f.prefill_context + 5e-3 * f.decode_rows);
    }
    return fitted;
  }();
  return model;
}

StepFeatures Streams(int count) {
  StepFeatures features;
  for (int i = 0; i < count; ++i) features.AddDecode(100);
  return features;
}

std::vector<int64_t> Choose(const std::vector<PrefillCandidate>& candidates,
                            const PrefillBudget& budget) {
  std::vector<int64_t> chunks(candidates.size(), -1);
  ChoosePrefillChunks(Model(), candidates, budget, chunks);
  return chunks;
}

double Seconds(const std::vector<PrefillCandidate>& candidates, const std::vector<int64_t>& chunks,
               StepFeatures features) {
  for (size_t i = 0; i < chunks.size(); ++i) {
    if (chunks[i] > 0) features.AddPrefill(chunks[i], candidates[i].computed);
  }
  return Model().Predict(features);
}

TEST(PrefillPolicy, WithoutStreamsRowsAreTheOnlyLimit) {
  const std::vector<int64_t> chunks =
      Choose({{.computed = 0, .pending = 5000, .waited = 0, .is_long = true}},
             {.rows = 512, .seconds = kInfinity, .max_wait = 4, .decode = {}});
  EXPECT_EQ(chunks, std::vector<int64_t>{512});
  EXPECT_EQ(Choose({{.computed = 0, .pending = 300, .waited = 0, .is_long = false}},
                   {.rows = 512, .seconds = kInfinity, .max_wait = 4, .decode = {}}),
            std::vector<int64_t>{300});
}

TEST(PrefillPolicy, S1AStepKeepsToItsTimeUnlessOneWaitedTooLong) {
  RandomStream random({.seed = 2, .stream = 0});
  int filled = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<PrefillCandidate> candidates(1 + random.NextBelow(4));
    for (PrefillCandidate& c : candidates) {
      c = {.computed = static_cast<int64_t>(random.NextBelow(3000)),
           .pending = 1 + static_cast<int64_t>(random.NextBelow(3000)),
           .waited = 0,
           .is_long = random.NextBelow(2) == 0};
    }
    const StepFeatures streams = Streams(1 + static_cast<int>(random.NextBelow(8)));
    const PrefillBudget budget = {.rows = 1 + static_cast<int64_t>(random.NextBelow(600)),
                                  .seconds = 0.05 + 0.5 * random.NextUniform(),
                                  .max_wait = 8,
                                  .decode = streams};
    const std::vector<int64_t> chunks = Choose(candidates, budget);
    EXPECT_LE(std::accumulate(chunks.begin(), chunks.end(), int64_t{0}), budget.rows);
    EXPECT_LE(Seconds(candidates, chunks, streams), budget.seconds) << round;
    for (size_t i = 0; i < chunks.size(); ++i) {
      EXPECT_GE(chunks[i], 0);
      EXPECT_LE(chunks[i], candidates[i].pending);
      filled += chunks[i] > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(filled, 2000);
}

TEST(PrefillPolicy, ShortPromptsBeforeLongOnesAndTheOldestFirst) {
  const std::vector<PrefillCandidate> candidates = {
      {.computed = 0, .pending = 4000, .waited = 0, .is_long = true},
      {.computed = 0, .pending = 100, .waited = 0, .is_long = false},
      {.computed = 0, .pending = 300, .waited = 0, .is_long = false},
      {.computed = 0, .pending = 300, .waited = 0, .is_long = false}};
  const PrefillBudget budget = {.rows = 512, .seconds = kInfinity, .max_wait = 8, .decode = {}};
  // The third short one finds 112 rows and ends its chunk where an eighth of them is not lost.
  EXPECT_EQ(Choose(candidates, budget), (std::vector<int64_t>{0, 100, 300, 112}));
}

TEST(PrefillPolicy, ChunksEndOnTheGridOrWithThePrompt) {
  RandomStream random({.seed = 3, .stream = 0});
  int checked = 0;
  for (int round = 0; round < 2000; ++round) {
    const PrefillCandidate candidate = {.computed = static_cast<int64_t>(random.NextBelow(2000)),
                                        .pending = 1 + static_cast<int64_t>(random.NextBelow(2000)),
                                        .waited = 0,
                                        .is_long = false};
    const PrefillBudget budget = {
        .rows = 512, .seconds = 0.02 + random.NextUniform(), .max_wait = 4, .decode = Streams(1)};
    const int64_t chunk = Choose({candidate}, budget)[0];
    if (chunk == 0 || chunk == candidate.pending) continue;
    // The grid of g wherever it would have cost an eighth of the chunk at most: so no chunk of 8 g
    // or more ends off it.
    for (int64_t grid = 2; grid <= kChunkGrid; grid *= 2) {
      if (chunk < 8 * grid) continue;
      EXPECT_EQ((candidate.computed + chunk) % grid, 0) << candidate.computed << '+' << chunk;
    }
    checked += chunk >= 64 ? 1 : 0;
  }
  EXPECT_GT(checked, 500);
}

// Steps through prefills as the scheduler does, and looks at how long each had to wait.
struct Waiting {
  int64_t rows;
  double seconds;
  int32_t max_wait;
  size_t num_candidates;
  bool others_join = false;  // new ones come while the old ones are read

  int32_t Longest() const {
    std::vector<PrefillCandidate> candidates;
    RandomStream random({.seed = num_candidates, .stream = 7});
    const auto join = [&] {
      candidates.push_back({.computed = 0,
                            .pending = 1 + static_cast<int64_t>(random.NextBelow(3000)),
                            .waited = 0,
                            .is_long = random.NextBelow(2) == 0});
    };
    while (candidates.size() < (others_join ? 1 : num_candidates)) join();
    int32_t longest = 0;
    for (int step = 0; step < 300; ++step) {
      if (others_join && candidates.size() < num_candidates) join();
      const std::vector<int64_t> chunks =
          Choose(candidates, {.rows = rows,
                              .seconds = seconds,
                              .max_wait = max_wait,
                              .decode = seconds < kInfinity ? Streams(4) : StepFeatures()});
      for (size_t i = 0; i < chunks.size(); ++i) {
        PrefillCandidate& c = candidates[i];
        c.waited = chunks[i] > 0 ? 0 : c.waited + 1;
        longest = std::max(longest, c.waited);
        c.computed += chunks[i];
        c.pending -= chunks[i];
      }
      std::erase_if(candidates, [](const PrefillCandidate& c) { return c.pending == 0; });
    }
    return longest;
  }
};

// Of K steps at least one advances each: it never misses K in a row, so its longest wait is K − 1.
TEST(PrefillPolicy, S2EveryPrefillAdvancesOnceInKStepsHoweverManyThereAre) {
  for (size_t count = 1; count <= 50; ++count) {
    for (const int32_t wait : {1, 2, 4, 7}) {
      for (const int64_t rows : {50, 512}) {
        EXPECT_LT((Waiting{rows, kInfinity, wait, count}.Longest()), wait) << count << ' ' << rows;
        EXPECT_LT((Waiting{rows, 0.05, wait, count}.Longest()), wait) << count << ' ' << rows;
      }
    }
  }
}

TEST(PrefillPolicy, S2HoldsWhileOthersJoin) {
  for (size_t count = 1; count <= 50; ++count) {
    for (const int32_t wait : {2, 4, 7}) {
      EXPECT_LT((Waiting{512, kInfinity, wait, count, true}.Longest()), wait) << count;
      EXPECT_LT((Waiting{512, 0.05, wait, count, true}.Longest()), wait) << count;
    }
  }
}

TEST(PrefillPolicy, LeastChunkSharesTheRows) {
  EXPECT_EQ(LeastChunk(512, 1, 4), 8);
  EXPECT_EQ(LeastChunk(512, 50, 4), 8);  // 13 in a step have 39 rows each
  EXPECT_EQ(LeastChunk(20, 16, 4), 5);
  EXPECT_EQ(LeastChunk(2, 50, 4), 1);
  EXPECT_EQ(LeastChunk(512, 0, 4), 8);
}

// Chunks of a sparse prefill are whole tiles, whatever the time, unless they end the prompt.
TEST(PrefillPolicy, ChunksOfAUnitAreWhole) {
  const StepTimeModel model;  // knows nothing: the smallest chunk
  for (const int64_t unit : {64, 128, 512}) {
    for (int64_t pending = 1; pending < 1500; pending += 37) {
      for (const double seconds : {0.0, std::numeric_limits<double>::infinity()}) {
        const PrefillCandidate candidate{
            .computed = 2 * unit, .pending = pending, .waited = 3, .is_long = false, .unit = unit};
        int64_t chunk = -1;
        ChoosePrefillChunks(model, std::span(&candidate, 1),
                            {.rows = 700, .seconds = seconds, .max_wait = 4, .decode = {}},
                            std::span(&chunk, 1));
        ASSERT_GT(chunk, 0);
        ASSERT_TRUE(chunk == pending || chunk % unit == 0) << unit << " " << pending;
      }
    }
  }
}

}  // namespace
}  // namespace baton
