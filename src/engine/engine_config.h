// Every limit of the engine, in one place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "engine/loaded_model.h"
#include "forward/step_forward.h"
#include "schedule/schedule_limits.h"

namespace baton {

// Plain data. Validate before use; ToText prints it (`--print-config`).
struct EngineConfig {
  // Requests computed at the same time; each is a row of a decode step.
  int32_t max_running = 1;
  // Requests and prompt tokens that may wait. What comes on top is refused at once.
  int64_t max_queue_requests = 1024;
  int64_t max_queue_tokens = 4 << 20;
  // Tokens that the KV cache has room for, running, kept and waiting to be found again together;
  // rounded up to blocks of 64. At least the context.
  int64_t kv_tokens = 0;
  // Prompt tokens of one step.
  int64_t max_step_tokens = 512;
  // The longest time between two tokens of a stream while prompts are read beside it, in decode
  // steps without them (contract S-1).
  double max_gap_steps = 5.0;
  // An admitted prompt advances at least once in so many steps (S-2).
  int32_t max_prefill_wait_steps = 4;
  // Prompts with more tokens to compute than long_prompt_tokens are long; so many of them are read
  // at a time (S-4).
  int64_t long_prompt_tokens = 2048;
  int32_t max_long_prefills = 2;
  // Younger requests that may be admitted before the oldest waiting one (S-4).
  int32_t max_passes = 16;
  // Tokens that a request gains before it may be preempted again (S-5).
  int64_t min_progress_tokens = 64;
  // Workspace that the sparse policy of a request may need. Units: bytes.
  uint64_t max_policy_bytes = uint64_t{256} << 20;
  // Whether finished blocks are kept and found again by content.
  bool prefix_cache = true;
  // A folder that keeps blocks beyond the memory and the run, with at most so many bytes; empty for
  // none. Needs the prefix cache.
  std::string kv_disk_folder;
  uint64_t kv_disk_bytes = 0;

  friend bool operator==(const EngineConfig&, const EngineConfig&) = default;
};

// The configuration that serves a model opened with these options.
EngineConfig EngineConfigOf(const LoadOptions& options, int64_t context_tokens);

// What a step's forward pass has to be ready for.
struct StepNeeds {
  int64_t context_tokens = 0;
  Precision precision = Precision::kFast;
  std::optional<SparsePolicy> prefill_policy = std::nullopt;
};
StepForwardOptions StepOptionsOf(const EngineConfig& config, const StepNeeds& needs);

// What of it the scheduler keeps to.
ScheduleLimits ScheduleLimitsOf(const EngineConfig& config, int64_t context_tokens);

// Errors: invalid, naming the field, its value and its limits.
Result<> Validate(const EngineConfig& config, int64_t context_tokens);

// One line "name = value" for each field, in the order above.
std::string ToText(const EngineConfig& config);

}  // namespace baton
