#include "cli/simulate_engine_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cli/bench_options.h"
#include "cli/input.h"
#include "cli/simulate_limits.h"
#include "simulate/step_times.h"

namespace baton {
namespace {

constexpr int64_t kMaxKvTokens = 1 << 25;

}  // namespace

void SimulateEngineOptions::Declare(OptionSet& options) {
  DeclareScheduler(options);
  DeclareTimes(options);
}

void SimulateEngineOptions::DeclareScheduler(OptionSet& options) {
  options.Group("Scheduler");
  const auto integer = [&](const char* name, const char* help, IntegerRange range,
                           std::optional<int64_t>* value) {
    options.Integer({.names = name, .value = "N", .help = help}, range, value);
  };
  integer("--ctx", "Tokens of a sequence, at most (default: 8192)",
          {.min = 1, .max = kMaxSimulatedContext}, &context_);
  integer("--max-running", "Requests computed at the same time (default: 16)",
          {.min = 1, .max = 4096}, &max_running_);
  integer("--kv-tokens", "Tokens that the KV cache holds (default: --ctx times --max-running)",
          {.min = 1, .max = kMaxKvTokens}, &kv_tokens_);
  integer("--chunk", "Prompt tokens of a step, at most (default: 512)",
          {.min = 1, .max = kMaxSimulatedCount}, &chunk_);
  options.Real({.names = "--max-gap-steps",
                .value = "X",
                .help = "The longest step beside streams, in decode steps (default: 5)"},
               {.min = 1, .max = 1e6}, &max_gap_steps_);
  integer("--max-prefill-wait", "Each prompt advances once in so many steps (default: 4)",
          {.min = 1, .max = kMaxSimulatedCount}, &max_prefill_wait_);
  integer("--long-prompt", "Prompts with more tokens are long (default: 2048)",
          {.min = 1, .max = kMaxSimulatedContext}, &long_prompt_);
  integer("--max-long-prefills", "Long prompts read at a time (default: 2)",
          {.min = 1, .max = 4096}, &max_long_prefills_);
  integer("--max-passes", "Younger requests that may pass the oldest (default: 16)",
          {.min = 0, .max = kMaxSimulatedCount}, &max_passes_);
  integer("--queue",
          "Requests that may wait, as long as all that wait and run have 2^29 tokens at most, "
          "with their answers (default: 1024)",
          {.min = 1, .max = kMaxSimulatedCount}, &queue_);
  options.Flag({.names = "--no-prefix-cache",
                .value = "",
                .help = "Compute every prompt from its first token"},
               &no_prefix_cache_);
}

void SimulateEngineOptions::DeclareTimes(OptionSet& options) {
  options.Group("Step times");
  options.Parsed({.names = "--step-times",
                  .value = "A,B,C,D,E",
                  .help = "Seconds (default: 4.4e-3,5.5e-4,2.6e-7,8.3e-4,7e-7)"},
                 [this](const std::string& given) { return TakeStepTimes(given); });
  options.File({.names = "--time-model",
                .value = "FILE",
                .help = "The same from a JSON object: per_step, per_prefill_token, "
                        "per_prefill_context, per_decode_row, per_decode_context",
                .dash_is_input = true},
               &time_model_path_);
  options.Real({.names = "--noise",
                .value = "SD",
                .help = "Relative standard deviation of a step's time (default: 0)"},
               {.min = 0, .max = 1}, &noise_);
}

Result<> SimulateEngineOptions::TakeStepTimes(const std::string& given) {
  std::vector<double> numbers;
  for (const std::string& word : SplitList(given)) {
    const std::optional<double> number = ParseReal(word, {.min = 0, .max = 1000});
    if (number) numbers.push_back(*number);
    if (!number || numbers.size() > 5) numbers.resize(6);
  }
  if (numbers.size() != 5) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("takes five numbers of seconds from 0 to 1000 with commas between "
                            "them, not '{}'",
                            given));
  }
  step_times_ = StepTimeCoefficients{.per_step = numbers[0],
                                     .per_prefill_token = numbers[1],
                                     .per_prefill_context = numbers[2],
                                     .per_decode_row = numbers[3],
                                     .per_decode_context = numbers[4]};
  return {};
}

Result<> SimulateEngineOptions::Check() const {
  if (time_model_path_ && step_times_) {
    return Fail(ErrorCode::kInvalid, "--time-model and --step-times exclude each other");
  }
  if (KvTokens() < Context()) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("--kv-tokens {} cannot hold one sequence of --ctx {}; give "
                            "--kv-tokens {} or more, or --ctx {} or less",
                            KvTokens(), Context(), Context(), KvTokens()));
  }
  return {};
}

int64_t SimulateEngineOptions::KvTokens() const {
  return kv_tokens_.value_or(std::min(Context() * max_running(), kMaxKvTokens));
}

Result<StepTimeCoefficients> SimulateEngineOptions::Times(Console& console) const {
  if (!time_model_path_) return step_times_.value_or(kSmallModelTimes);
  const Result<std::string> text = ReadTextOrInput(*time_model_path_, console.in);
  if (!text) return Forward(text);
  Result<StepTimeCoefficients> times = ParseStepTimes(*text);
  if (times) return times;
  return Fail(times.error().code, *time_model_path_ + ": " + times.error().message);
}

Result<SimulationOptions> SimulateEngineOptions::Make(Console& console) const {
  const Result<StepTimeCoefficients> times = Times(console);
  if (!times) return Forward(times);
  SimulationOptions options;
  options.limits = {.max_running = static_cast<int32_t>(max_running()),
                    .max_context = Context(),
                    .max_prefill_rows = chunk_.value_or(512),
                    .max_queue_requests = queue_.value_or(1024),
                    .max_queue_tokens = queue_.value_or(1024) * Context(),
                    .max_gap_steps = max_gap_steps_.value_or(5),
                    .max_prefill_wait = static_cast<int32_t>(max_prefill_wait_.value_or(4)),
                    .long_prompt_tokens = long_prompt_.value_or(2048),
                    .max_long_prefills = static_cast<int32_t>(max_long_prefills_.value_or(2)),
                    .max_passes = static_cast<int32_t>(max_passes_.value_or(16)),
                    .prefix_cache = !no_prefix_cache_};
  options.kv_tokens = KvTokens();
  options.times = *times;
  options.known = MeasuredModel(*times);
  options.noise = noise_.value_or(0);
  return options;
}

}  // namespace baton
