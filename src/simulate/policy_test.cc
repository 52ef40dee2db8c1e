// What the scheduler's rules come to under load: the contract's scheduling lines in numbers, on the
// measured step times of a small model.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "simulate/simulation.h"

namespace baton {
namespace {

// SmolLM2-135M on two cores, from docs/performance.md.
constexpr StepTimeCoefficients kSmol = {.per_step = 4.4e-3,
                                        .per_prefill_token = 5.5e-4,
                                        .per_prefill_context = 2.6e-7,
                                        .per_decode_row = 8.3e-4,
                                        .per_decode_context = 7e-7};

SimulationOptions Options() {
  SimulationOptions options;
  options.limits = {.max_running = 16,
                    .max_context = 16384,
                    .max_prefill_rows = 512,
                    .max_queue_requests = 100000,
                    .max_queue_tokens = int64_t{1} << 30,
                    .long_prompt_tokens = 2048,
                    .max_long_prefills = 2};
  options.kv_tokens = 256 * 1024;
  options.times = kSmol;
  options.known = MeasuredModel(kSmol);
  return options;
}

struct Outcome {
  SimulationResult result;
  std::vector<SimulatedRequest> requests;  // by index
};

Outcome RunAll(const Workload& workload, SimulationOptions options) {
  Outcome outcome;
  outcome.requests.resize(workload.size());
  options.on_end = [&](const SimulatedRequest& request) {
    outcome.requests[static_cast<size_t>(request.index)] = request;
  };
  Result<SimulationResult> result = Simulate(workload, options);
  EXPECT_TRUE(result.has_value()) << (result ? "" : result.error().message);
  if (result) outcome.result = *std::move(result);
  return outcome;
}

double Ttft(const SimulatedRequest& request) {
  return request.first_token - request.arrival;
}

Workload Streams(int count, int64_t output_tokens) {
  Workload workload;
  for (int i = 0; i < count; ++i) {
    workload.push_back({.seconds = 0,
                        .prompt_tokens = 512,
                        .output_tokens = output_tokens,
                        .stream = static_cast<uint64_t>(i) + 1});
  }
  return workload;
}

// A prompt of 8,000 tokens beside eight streams: no gap beyond five steps, and the prompt takes at
// most half as long again as alone.
TEST(Policy, S1AndTheLongPromptBesideEightStreams) {
  const Arrival prompt = {.seconds = 20, .prompt_tokens = 8000, .output_tokens = 1, .stream = 99};
  const double alone = Ttft(RunAll({prompt}, Options()).requests[0]);
  for (const double noise : {0.0, 0.05, 0.1}) {
    Workload workload = Streams(8, 3000);
    workload.push_back(prompt);
    SimulationOptions options = Options();
    options.noise = noise;
    const Outcome outcome = RunAll(workload, options);
    EXPECT_LE(outcome.result.longest_gap_steps, 5.0) << noise;
    EXPECT_LE(Ttft(outcome.requests.back()), 1.5 * alone) << noise;
    EXPECT_GT(Ttft(outcome.requests.back()), 1.2 * alone) << "a fifth is the streams'";
  }
}

// A few prompt rows cost more than the formula says. While steps without prompts do not occur, this
// must not come to count as the streams' own time: they would have to wait the longer for it.
TEST(Policy, S1WhatPromptRowsCostBesideTheFormulaIsNotTheStreams) {
  Workload workload = Streams(8, 3000);
  workload.push_back({.seconds = 20, .prompt_tokens = 16000, .output_tokens = 1, .stream = 99});
  SimulationOptions options = Options();
  double longest = 0;
  int mixed_steps = 0;  // the first ones are a surprise
  options.execute = [&](const StepPlan& plan) {
    StepFeatures all;
    StepFeatures streams;
    for (const SequenceStep& step : plan.sequences) {
      if (step.phase == Phase::kDecode) {
        streams.AddDecode(step.first_position);
        all.AddDecode(step.first_position);
      } else {
        all.AddPrefill(step.num_rows(), step.first_position);
      }
    }
    const double extra = all.prefill_tokens > 0 ? 8e-3 : 0.0;
    const double seconds = StepSeconds(kSmol, all) + extra;
    if (extra > 0 && streams.decode_rows > 0 && ++mixed_steps > 50) {
      longest = std::max(longest, seconds / StepSeconds(kSmol, streams));
    }
    return seconds;
  };
  EXPECT_EQ(RunAll(workload, options).result.completed, 9);
  EXPECT_GT(longest, 3.5);
  EXPECT_LE(longest, 5.0);
}

// Forty long prompts, one after the other, beside four streams.
TEST(Policy, S1AndS4AStormOfLongPrompts) {
  Workload workload = Streams(4, 6000);
  for (int i = 0; i < 40; ++i) {
    workload.push_back({.seconds = 10.0 + 0.1 * i,
                        .prompt_tokens = 3000,
                        .output_tokens = 20,
                        .stream = static_cast<uint64_t>(100 + i)});
  }
  const Outcome outcome = RunAll(workload, Options());
  EXPECT_LE(outcome.result.longest_gap_steps, 5.0);
  // First come, first served, two at a time: a quarter of the time is the streams', and some that
  // of the answers that follow.
  const double one = 3000 * (5.5e-4 + 2.6e-7 * 1500);
  for (size_t i = 4; i < workload.size(); ++i) {
    EXPECT_LE(Ttft(outcome.requests[i]), 1.6 * one * static_cast<double>(i - 4 + 2)) << i;
  }
}

// A burst of prompts of every size while one stream runs: S-2 must not cost S-1.
TEST(Policy, S1ABurstOfManyPromptsBesideOneStream) {
  for (const int64_t length : {10, 40, 150, 600, 2500}) {
    Workload workload = Streams(1, 4000);
    for (int i = 0; i < 60; ++i) {
      workload.push_back({.seconds = 10,
                          .prompt_tokens = length,
                          .output_tokens = 1 + i % 7 * 30,
                          .stream = static_cast<uint64_t>(100 + i)});
    }
    EXPECT_LE(RunAll(workload, Options()).result.longest_gap_steps, 5.0) << length;
  }
}

// Short questions wait for a step or two, not for the long prompt before them.
TEST(Policy, S4ShortPromptsPassALongOne) {
  Workload workload = {{.seconds = 0, .prompt_tokens = 12000, .output_tokens = 10, .stream = 1}};
  for (int i = 0; i < 20; ++i) {
    workload.push_back({.seconds = 1.0 + i,
                        .prompt_tokens = 60,
                        .output_tokens = 10,
                        .stream = static_cast<uint64_t>(100 + i)});
  }
  const Outcome outcome = RunAll(workload, Options());
  const double step = 512 * (5.5e-4 + 2.6e-7 * 12000);
  for (size_t i = 1; i < workload.size(); ++i) {
    EXPECT_LE(Ttft(outcome.requests[i]), 2 * step) << i;
  }
}

// More comes than can be served, all the time and of higher priority: the others are served too.
TEST(Policy, S4NoRequestStarves) {
  Workload workload;
  for (int i = 0; i < 3000; ++i) {
    workload.push_back({.seconds = 0.05 * i,
                        .prompt_tokens = 100,
                        .output_tokens = 100,
                        .stream = static_cast<uint64_t>(i),
                        .priority = i % 10 == 0 ? 0 : 5});
  }
  SimulationOptions options = Options();
  const Outcome outcome = RunAll(workload, options);
  EXPECT_EQ(outcome.result.completed, 3000);
  // One low request is admitted for 16 high ones that pass it. 300 low ones that came within 150 s
  // need 300 · 17 admissions at most, and 2,700 high ones are all there are: so the first third of
  // the low ones is served while high ones are still waiting.
  double high_end = 0;
  int low_before = 0;
  for (size_t i = 0; i < workload.size(); ++i) {
    if (workload[i].priority == 5) high_end = std::max(high_end, outcome.requests[i].first_token);
  }
  for (size_t i = 0; i < workload.size(); i += 10) {
    low_before += outcome.requests[i].first_token < high_end ? 1 : 0;
  }
  EXPECT_GT(low_before, 100);
  EXPECT_LT(low_before, 300) << "priority counts";
}

TEST(Policy, PrioritiesWaitLess) {
  WorkloadOptions wanted;
  wanted.rate = 4;
  wanted.duration = 300;
  wanted.prompt_tokens = *LengthDistribution::Parse("200..400");
  wanted.output_tokens = *LengthDistribution::Parse("50..150");
  wanted.high_share = 0.2;
  const Workload workload = *GenerateWorkload(wanted);
  SimulationOptions options = Options();
  options.limits.max_running = 4;
  const Outcome outcome = RunAll(workload, options);
  TimeHistogram by_priority[2];
  for (const SimulatedRequest& request : outcome.requests) {
    by_priority[workload[static_cast<size_t>(request.index)].priority].Add(Ttft(request));
  }
  EXPECT_LT(5 * by_priority[1].Quantile(0.5), by_priority[0].Quantile(0.5));
}

// Requests of one kind and priority: the ends of the queue are treated alike.
TEST(Policy, EqualRequestsAreServedInTheirOrder) {
  Workload workload;
  for (int i = 0; i < 400; ++i) {
    workload.push_back({.seconds = 0.01 * i,
                        .prompt_tokens = 150,
                        .output_tokens = 60,
                        .stream = static_cast<uint64_t>(i)});
  }
  const Outcome outcome = RunAll(workload, Options());
  for (size_t i = 1; i < workload.size(); ++i) {
    EXPECT_LE(outcome.requests[i - 1].first_planned, outcome.requests[i].first_planned) << i;
  }
}

// A pool in which a fraction of the answers fits: they take turns, and the work that is done twice
// does not eat up the throughput.
TEST(Policy, S5ASmallPoolDoesNotThrash) {
  const Workload workload = Streams(64, 1500);
  const int64_t wanted = 64 * (512 + 1500);
  for (const int64_t kv_tokens : {4096, 8192, 16384}) {
    SimulationOptions options = Options();
    options.kv_tokens = kv_tokens;
    const SimulationResult result = RunAll(workload, options).result;
    EXPECT_EQ(result.completed, 64);
    EXPECT_GT(result.counts.preemptions, 0u);
    const auto computed =
        static_cast<int64_t>(result.counts.prompt_tokens + result.counts.other_tokens);
    EXPECT_LT(computed, wanted * 7 / 4) << kv_tokens;
    // So many answers fit side by side at their mean length; each of their tokens costs a share of
    // the weights, a row and its past, and reading the prompts comes on top.
    const double side_by_side = std::min(16.0, static_cast<double>(kv_tokens) / (512 + 750));
    const double token = kSmol.per_step / side_by_side + kSmol.per_decode_row +
                         (512 + 750) * kSmol.per_decode_context;
    const double ideal = 64 * (1500 * token + 512 * (5.5e-4 + 256 * 2.6e-7));
    EXPECT_LT(result.busy_seconds, 1.35 * ideal) << kv_tokens;
  }
}

// Under a steady load that the machine can carry, the second half goes as the first: no swinging
// between reading and writing, no growing queue.
TEST(Policy, ASteadyLoadDoesNotSwing) {
  WorkloadOptions wanted;
  wanted.rate = 1;
  wanted.duration = 4000;
  wanted.prompt_tokens = *LengthDistribution::Parse("lognormal:300,0.8");
  wanted.output_tokens = *LengthDistribution::Parse("lognormal:80,0.6");
  SimulationOptions options = Options();
  options.noise = 0.05;
  options.num_windows = 8;
  const SimulationResult result = RunAll(*GenerateWorkload(wanted), options).result;
  std::vector<double> medians;
  for (const SimulationWindow& window : result.windows) {
    medians.push_back(window.gap.Quantile(0.5));
    EXPECT_LT(window.longest_queue, 20);
  }
  const auto [least, most] = std::ranges::minmax(medians);
  EXPECT_LT(most, 2 * least);
  EXPECT_LE(result.longest_gap_steps, 5.0);
}

// The scheduler learns the times: what it was told at first is ten times wrong.
TEST(Policy, AWrongFitAtTheStartIsMended) {
  StepTimeCoefficients wrong = kSmol;
  wrong.per_prefill_token /= 10;
  Workload workload = Streams(4, 4000);
  workload.push_back({.seconds = 10, .prompt_tokens = 2000, .output_tokens = 1, .stream = 98});
  workload.push_back({.seconds = 30, .prompt_tokens = 8000, .output_tokens = 1, .stream = 99});
  SimulationOptions options = Options();
  options.known = MeasuredModel(wrong);
  options.num_windows = 30;
  const Outcome outcome = RunAll(workload, options);
  EXPECT_LT(outcome.result.usual_residual, 0.05);
  const double unloaded = kSmol.per_step + 4 * (kSmol.per_decode_row + 2500 * 7e-7);
  for (const SimulationWindow& window : outcome.result.windows) {
    if (window.begin < 29) continue;
    EXPECT_LE(window.gap.max(), 5 * unloaded) << window.begin;
  }
}

}  // namespace
}  // namespace baton
