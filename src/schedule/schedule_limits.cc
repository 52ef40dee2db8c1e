#include "schedule/schedule_limits.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace baton {
namespace {

Result<> InRange(const char* name, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return {};
  return Fail(ErrorCode::kInvalid,
              fmt::format("{} must be in {}..{}, got {}", name, least, most, value));
}

}  // namespace

Result<> Validate(const ScheduleLimits& limits) {
  constexpr int64_t kMaxCount = std::numeric_limits<int32_t>::max();
  const struct {
    const char* name;
    int64_t value;
    int64_t least;
    int64_t most;
  } fields[] = {
      {"max_running", limits.max_running, 1, 4096},
      {"max_context", limits.max_context, 1, kMaxCount},
      {"max_prefill_rows", limits.max_prefill_rows, 1, kMaxCount},
      {"max_queue_requests", limits.max_queue_requests, 1, 1 << 20},
      {"max_queue_tokens", limits.max_queue_tokens, 1, int64_t{1} << 40},
      {"max_prefill_wait", limits.max_prefill_wait, 1, 1 << 20},
      {"long_prompt_tokens", limits.long_prompt_tokens, 1, kMaxCount},
      {"max_long_prefills", limits.max_long_prefills, 1, 4096},
      {"max_passes", limits.max_passes, 0, 1 << 20},
      {"min_progress_tokens", limits.min_progress_tokens, 1, 64},
  };
  for (const auto& field : fields) {
    if (Result<> ok = InRange(field.name, field.value, field.least, field.most); !ok) return ok;
  }
  if (std::isfinite(limits.max_gap_steps) && limits.max_gap_steps >= 1.0) return {};
  return Fail(ErrorCode::kInvalid,
              fmt::format("max_gap_steps must be at least 1, got {}", limits.max_gap_steps));
}

}  // namespace baton
