#include "engine/engine_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/number_text.h"
#include "schedule/schedule_limits.h"

namespace baton {

EngineConfig EngineConfigOf(const LoadOptions& options, int64_t context_tokens) {
  EngineConfig config;
  config.max_running = options.max_running;
  config.max_gap_steps = options.max_gap_steps;
  config.kv_tokens = options.kv_tokens.value_or(context_tokens * options.max_running);
  config.max_step_tokens = std::min(options.chunk_tokens, context_tokens);
  return config;
}

StepForwardOptions StepOptionsOf(const EngineConfig& config, const StepNeeds& needs) {
  return {.max_sequences = config.max_running,
          // One of the sequences is in prefill, or none.
          .max_rows = config.max_step_tokens + config.max_running - 1,
          .max_context = needs.context_tokens,
          .precision = needs.precision,
          .prefill_policy = needs.prefill_policy};
}

ScheduleLimits ScheduleLimitsOf(const EngineConfig& config, int64_t context_tokens) {
  return {.max_running = config.max_running,
          .max_context = context_tokens,
          .max_prefill_rows = config.max_step_tokens,
          .max_queue_requests = config.max_queue_requests,
          .max_queue_tokens = config.max_queue_tokens,
          .max_gap_steps = config.max_gap_steps,
          .max_prefill_wait = config.max_prefill_wait_steps,
          .long_prompt_tokens = config.long_prompt_tokens,
          .max_long_prefills = config.max_long_prefills,
          .max_passes = config.max_passes,
          .min_progress_tokens = config.min_progress_tokens,
          .prefix_cache = config.prefix_cache};
}

Result<> Validate(const EngineConfig& config, int64_t context_tokens) {
  if (Result<> valid = Validate(ScheduleLimitsOf(config, context_tokens)); !valid) return valid;
  if (!config.kv_disk_folder.empty() && !config.prefix_cache) {
    return Fail(ErrorCode::kInvalid,
                "a cache on disk (kv_disk_folder) needs the prefix cache (prefix_cache = true)");
  }
  if (config.kv_tokens >= context_tokens) return {};
  return Fail(ErrorCode::kInvalid,
              fmt::format("the KV cache has room for {} (--kv-tokens), and one sequence of the "
                          "context (--ctx) needs {}; give --kv-tokens {} or more, or --ctx {} or "
                          "less",
                          CountOf(config.kv_tokens, "token"), CountText(context_tokens),
                          context_tokens, config.kv_tokens));
}

std::string ToText(const EngineConfig& config) {
  return fmt::format(
      "max_running = {}\nmax_queue_requests = {}\nmax_queue_tokens = {}\nkv_tokens = {}\n"
      "max_step_tokens = {}\nmax_gap_steps = {}\nmax_prefill_wait_steps = {}\n"
      "long_prompt_tokens = {}\nmax_long_prefills = {}\nmax_passes = {}\n"
      "min_progress_tokens = {}\nmax_policy_bytes = {}\nprefix_cache = {}\nkv_disk_folder = "
      "{}\nkv_disk_bytes = {}\n",
      config.max_running, config.max_queue_requests, config.max_queue_tokens, config.kv_tokens,
      config.max_step_tokens, config.max_gap_steps, config.max_prefill_wait_steps,
      config.long_prompt_tokens, config.max_long_prefills, config.max_passes,
      config.min_progress_tokens, config.max_policy_bytes, config.prefix_cache,
      config.kv_disk_folder, config.kv_disk_bytes);
}

}  // namespace baton
