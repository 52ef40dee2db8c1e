// The scheduler's limits, named once.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace baton {

// What the rules of docs/scheduling.md are about. Plain data.
struct ScheduleLimits {
  int32_t max_running = 1;         // sequences computed at the same time
  int64_t max_context = 0;         // positions of a sequence
  int64_t max_prefill_rows = 512;  // prompt tokens of a step
  int64_t max_queue_requests = 1;  // that wait
  int64_t max_queue_tokens = 0;    // prompt tokens that wait
  double max_gap_steps = 5.0;      // S-1: a stream's longest gap, in decode steps without prefill
  int32_t max_prefill_wait = 4;    // S-2: steps in which an admitted prefill advances at least once
  int64_t long_prompt_tokens = 0;  // S-4: a prefill with more tokens to compute is long
  int32_t max_long_prefills = 1;   // S-4: long ones at a time
  int32_t max_passes = 16;         // S-4: younger requests admitted before the oldest one
  int64_t min_progress_tokens = 64;  // S-5: gained between two preemptions
  bool prefix_cache = true;

  friend bool operator==(const ScheduleLimits&, const ScheduleLimits&) = default;
};

// Errors: invalid, naming the field, the value and the range.
Result<> Validate(const ScheduleLimits& limits);

}  // namespace baton
