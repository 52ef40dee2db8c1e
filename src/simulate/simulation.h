// The real scheduler on a virtual clock: instead of a model a formula says how long a step takes.
//
// What the scheduler knows of this formula it learns while running, as in the engine. Its blocks
// are real ones, of the smallest size. Nothing else is left out but what the executor computes, so
// a prediction is as good as the formula.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "schedule/schedule_limits.h"
#include "schedule/scheduler.h"
#include "schedule/step_time_model.h"
#include "simulate/time_histogram.h"
#include "simulate/workload.h"

namespace baton {

// Seconds that a step takes, by the formula of StepTimeModel.
double StepSeconds(const StepTimeCoefficients& times, const StepFeatures& features);

// What a fit knows after a short measurement of these times: eight steps, of small and large chunks
// with and without a past, and of one and of many decode rows.
StepTimeModel MeasuredModel(const StepTimeCoefficients& times);

// How a request went. Units: seconds of the virtual clock; negative: never.
struct SimulatedRequest {
  int64_t index = 0;  // in the workload
  double arrival = 0;
  double first_planned = -1;
  double first_token = -1;
  double end = 0;
  double longest_gap = 0;  // between two of its tokens
  int64_t output_tokens = 0;
  int64_t hit_tokens = 0;
  int32_t preemptions = 0;
  bool is_cancelled = false;
};

struct SimulationOptions {
  ScheduleLimits limits;
  int64_t kv_tokens = 0;       // rounded up to blocks
  StepTimeCoefficients times;  // what steps take
  StepTimeModel known;         // what the scheduler knows of it at the start
  // Tokens of all requests that wait or run, prompts and answers, which are kept in memory: one
  // that exceeds them is refused as by a full queue.
  int64_t max_live_tokens = int64_t{1} << 29;
  double noise = 0;  // relative standard deviation of a step's time
  uint64_t seed = 0;
  // The time is told in equal parts, for a picture of how it went: at least so many and at most
  // twice as many, one if no time passes.
  int num_windows = 12;
  int64_t vocab_size = 1 << 20;  // tokens are below it
  // Computes a step and says how long it took, instead of `times`: an executor of flesh and blood.
  std::function<double(const StepPlan& plan)> execute;
  // Is told of every request that was taken and has ended.
  std::function<void(const SimulatedRequest&)> on_end;
  // Is asked now and then; true stops the simulation where it is.
  std::function<bool(double seconds)> stop;
};

// A part of the virtual time. TTFT counts where the first token came, a gap where it ended.
struct SimulationWindow {
  double begin = 0;
  TimeHistogram ttft;
  TimeHistogram gap;
  int64_t longest_queue = 0;
};

struct SimulationResult {
  int64_t arrived = 0;
  int64_t completed = 0;
  int64_t cancelled = 0;
  int64_t refused_queue = 0;    // the queue was full
  int64_t refused_context = 0;  // prompts that the context or the cache cannot hold

  double seconds = 0;       // virtual
  double busy_seconds = 0;  // in steps
  TimeHistogram ttft;       // from arrival to first token
  TimeHistogram gap;        // between two tokens of a stream
  TimeHistogram queue;      // from arrival to the first step
  TimeHistogram total;      // from arrival to the end, of completed requests
  // The longest step with streams beside prefill, in decode steps of the same streams alone.
  double longest_gap_steps = 0;
  int64_t output_tokens = 0;
  ScheduleCounts counts;
  int64_t num_blocks = 0;
  double mean_owned_blocks = 0;  // over the busy time
  int64_t most_owned_blocks = 0;
  double mean_running = 0;  // over the busy time
  int64_t longest_queue = 0;
  StepTimeCoefficients fitted;  // what the scheduler knows at the end
  double usual_residual = 0;    // of this fit
  std::vector<SimulationWindow> windows;
};

// Runs a workload to its end.
// Errors: invalid (limits, sizes, times), exhausted (memory for the blocks), cancelled (stopped),
// internal (the books are wrong: a bug).
Result<SimulationResult> Simulate(const Workload& workload, const SimulationOptions& options);

// The same with blocks of the caller's pool, which is all free; kv_tokens does not count.
Result<SimulationResult> SimulateIn(BlockPool& pool, const Workload& workload,
                                    const SimulationOptions& options);

}  // namespace baton
