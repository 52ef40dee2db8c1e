#include "simulate/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace baton {
namespace {

using ::testing::HasSubstr;

// A step of 10 ms, 1 ms a prompt token, 2 ms a decode row: numbers to reckon with by hand.
constexpr StepTimeCoefficients kTimes = {
    .per_step = 10e-3, .per_prefill_token = 1e-3, .per_decode_row = 2e-3};

SimulationOptions Options() {
  SimulationOptions options;
  options.limits = {.max_running = 8,
                    .max_context = 8192,
                    .max_prefill_rows = 512,
                    .max_queue_requests = 1000,
                    .max_queue_tokens = 1 << 20,
                    .long_prompt_tokens = 2048};
  options.kv_tokens = 64 * 1024;
  options.times = kTimes;
  options.known = MeasuredModel(kTimes);
  return options;
}

SimulationResult RunAll(const Workload& workload, const SimulationOptions& options) {
  Result<SimulationResult> result = Simulate(workload, options);
  EXPECT_TRUE(result.has_value()) << (result ? "" : result.error().message);
  return result ? *std::move(result) : SimulationResult();
}

TEST(Simulation, ALoneRequestTakesWhatTheFormulaSays) {
  std::vector<SimulatedRequest> ended;
  SimulationOptions options = Options();
  options.on_end = [&](const SimulatedRequest& request) { ended.push_back(request); };
  const SimulationResult result =
      RunAll({{.seconds = 3, .prompt_tokens = 100, .output_tokens = 11}}, options);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_NEAR(ended[0].first_token, 3 + 0.010 + 0.100, 1e-9);
  EXPECT_NEAR(ended[0].end, 3 + 0.110 + 10 * 0.012, 1e-9);
  EXPECT_NEAR(ended[0].longest_gap, 0.012, 1e-9);
  EXPECT_EQ(ended[0].output_tokens, 11);
  EXPECT_NEAR(result.busy_seconds, 0.23, 1e-9);
  EXPECT_NEAR(result.seconds, 3.23, 1e-9);
  EXPECT_EQ(result.completed, 1);
  EXPECT_EQ(result.counts.steps, 11u);
  EXPECT_EQ(result.gap.count(), 10);
  EXPECT_NEAR(result.ttft.Quantile(0.5), 0.110, 1e-9);
  EXPECT_NEAR(result.mean_running, 1, 1e-9);
  EXPECT_NEAR(result.mean_owned_blocks, 2, 1e-9);
}

TEST(Simulation, EqualSeedsGiveEqualRuns) {
  WorkloadOptions wanted;
  wanted.rate = 4;
  wanted.duration = 60;
  wanted.prompt_tokens = *LengthDistribution::Parse("lognormal:100,1");
  wanted.output_tokens = *LengthDistribution::Parse("5..50");
  const Workload workload = *GenerateWorkload(wanted);
  SimulationOptions options = Options();
  options.noise = 0.1;
  const SimulationResult first = RunAll(workload, options);
  const SimulationResult second = RunAll(workload, options);
  EXPECT_EQ(first.seconds, second.seconds);
  EXPECT_EQ(first.ttft.sum(), second.ttft.sum());
  options.seed = 1;
  EXPECT_NE(RunAll(workload, options).ttft.sum(), first.ttft.sum());
  EXPECT_GT(first.usual_residual, 0.05);
  EXPECT_LT(first.usual_residual, 0.15);
}

TEST(Simulation, EveryArrivalIsAccountedFor) {
  Workload workload = {{.seconds = 0, .prompt_tokens = 9000, .output_tokens = 1},
                       {.seconds = 0, .prompt_tokens = 50, .output_tokens = 5000}};
  workload[1].cancel_after = 1;
  for (uint64_t i = 0; i < 30; ++i) {
    workload.push_back({.seconds = 0.5, .prompt_tokens = 10, .output_tokens = 10, .stream = i + 2});
  }
  SimulationOptions options = Options();
  options.limits.max_queue_requests = 10;
  int ended = 0;
  options.on_end = [&](const SimulatedRequest&) { ++ended; };
  const SimulationResult result = RunAll(workload, options);
  EXPECT_EQ(result.arrived, 32);
  EXPECT_EQ(result.refused_context, 1);
  EXPECT_EQ(result.refused_queue, 20);
  EXPECT_EQ(result.cancelled, 1);
  EXPECT_EQ(result.completed, 10);
  EXPECT_EQ(ended, 11);
  EXPECT_EQ(result.longest_queue, 10);
}

TEST(Simulation, APrefixAndAChatAreComputedOnce) {
  Workload workload = {{.seconds = 0,
                        .prompt_tokens = 700,
                        .output_tokens = 2,
                        .stream = 1,
                        .prefix = 9,
                        .prefix_tokens = 640},
                       {.seconds = 5,
                        .prompt_tokens = 700,
                        .output_tokens = 2,
                        .stream = 2,
                        .prefix = 9,
                        .prefix_tokens = 640},
                       {.seconds = 5,
                        .prompt_tokens = 700,
                        .output_tokens = 2,
                        .stream = 3,
                        .prefix = 8,
                        .prefix_tokens = 640}};
  EXPECT_EQ(RunAll(workload, Options()).counts.prefix_hit_tokens, 640u);
  // The second turn finds the blocks of the first, prompt and answer: 300 + 84 tokens are 6.
  workload = {{.seconds = 0, .prompt_tokens = 300, .output_tokens = 85, .stream = 7},
              {.seconds = 2, .prompt_tokens = 500, .output_tokens = 5, .stream = 7, .follows = 0}};
  std::vector<SimulatedRequest> ended;
  SimulationOptions options = Options();
  options.on_end = [&](const SimulatedRequest& request) { ended.push_back(request); };
  EXPECT_EQ(RunAll(workload, options).counts.prefix_hit_tokens, 384u);
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_NEAR(ended[1].arrival, ended[0].end + 2, 1e-9);
}

// What waits and runs is kept in memory, so its tokens are bounded whatever the queue allows.
TEST(Simulation, TokensOfLiveRequestsAreBounded) {
  Workload workload;
  for (uint64_t i = 0; i < 10; ++i) {
    workload.push_back({.seconds = 0, .prompt_tokens = 70, .output_tokens = 30, .stream = i});
  }
  workload.push_back({.seconds = 1000, .prompt_tokens = 70, .output_tokens = 30, .stream = 10});
  SimulationOptions options = Options();
  options.max_live_tokens = 399;
  const SimulationResult result = RunAll(workload, options);
  EXPECT_EQ(result.refused_queue, 7);
  EXPECT_EQ(result.completed, 4);
  options.max_live_tokens = 1000;
  EXPECT_EQ(RunAll(workload, options).completed, 11);
}

// However late the work comes to its end, the windows share the time evenly.
TEST(Simulation, WindowsReachOverTheWholeTime) {
  const Workload late = {
      {.seconds = 0, .prompt_tokens = 10, .output_tokens = 1, .stream = 1},
      {.seconds = 600, .prompt_tokens = 10, .output_tokens = 1, .stream = 2, .follows = 0}};
  WorkloadOptions chats;
  chats.rate = 0.5;
  chats.duration = 60;
  chats.turns = 20;
  chats.think_seconds = 60;
  chats.prompt_tokens = *LengthDistribution::Parse("100");
  chats.output_tokens = *LengthDistribution::Parse("10");
  for (const Workload& workload : {late, *GenerateWorkload(chats)}) {
    const SimulationResult result = RunAll(workload, Options());
    const std::vector<SimulationWindow>& windows = result.windows;
    ASSERT_GE(windows.size(), 12u);
    ASSERT_LE(windows.size(), 24u);
    const double each = windows[1].begin;
    EXPECT_LE(windows.back().begin, result.seconds);
    EXPECT_GT(windows.back().begin + each, result.seconds);
    TimeHistogram ttft;
    for (size_t i = 0; i < windows.size(); ++i) {
      EXPECT_NEAR(windows[i].begin, static_cast<double>(i) * each, 1e-9 * result.seconds);
      ttft.Merge(windows[i].ttft);
    }
    EXPECT_EQ(ttft.count(), result.ttft.count());
    EXPECT_EQ(ttft.max(), result.ttft.max());
    EXPECT_LT(windows.back().ttft.count(), result.ttft.count() / 2 + 1);
  }
  const SimulationResult result = RunAll(late, Options());
  EXPECT_EQ(result.windows.front().ttft.count(), 1);
  EXPECT_EQ(result.windows.back().ttft.count(), 1);
  EXPECT_EQ(RunAll({}, Options()).windows.size(), 1u);
}

TEST(Simulation, StopsWhenAskedAndRefusesWhatCannotBe) {
  SimulationOptions options = Options();
  const Workload workload = {{.seconds = 0, .prompt_tokens = 100, .output_tokens = 5}};
  options.stop = [](double) { return true; };
  EXPECT_EQ(Simulate(workload, options).error().code, ErrorCode::kCancelled);
  options = Options();
  options.times.per_step = -1;
  EXPECT_THAT(Simulate(workload, options).error().message, HasSubstr("got -1"));
  options = Options();
  options.limits.max_running = 0;
  EXPECT_THAT(Simulate(workload, options).error().message, HasSubstr("max_running"));
  options = Options();
  options.kv_tokens = int64_t{1} << 40;
  EXPECT_EQ(Simulate(workload, options).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(RunAll({}, Options()).arrived, 0);
}

// The longest queueing theory that fits: one server, one request at a time, Poisson arrivals,
// service of always the same length D. The mean wait is ρ D / (2 (1 − ρ)) (Pollaczek, Khinchine).
TEST(Simulation, AgreesWithQueueingTheory) {
  WorkloadOptions wanted;
  wanted.rate = 3;
  wanted.duration = 100000;
  wanted.prompt_tokens = *LengthDistribution::Parse("190");
  wanted.output_tokens = *LengthDistribution::Parse("1");
  SimulationOptions options = Options();
  options.limits.max_running = 1;
  options.limits.prefix_cache = false;
  options.limits.max_queue_requests = 100000;
  const SimulationResult result = RunAll(*GenerateWorkload(wanted), options);
  const double service = 0.010 + 0.190;
  const double load = 3 * service;
  EXPECT_NEAR(result.busy_seconds / result.seconds, load, 0.01);
  EXPECT_NEAR(result.queue.mean(), load * service / (2 * (1 - load)), 0.005);
  EXPECT_EQ(result.completed, result.arrived);
  EXPECT_NEAR(static_cast<double>(result.arrived), 300000, 3 * std::sqrt(300000));
}

}  // namespace
}  // namespace baton
