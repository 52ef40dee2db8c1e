#include "net/http_limits.h"

#include <fmt/format.h>

#include <array>

namespace baton {
namespace {

struct Row {
  const char* name;
  int64_t value;
  int64_t min;
  int64_t max;
};

constexpr int64_t kMaxBytes = int64_t{1} << 40;
constexpr int64_t kMaxMs = int64_t{24} * 3600 * 1000;

std::array<Row, 11> RowsOf(const HttpLimits& limits) {
  return {{{"max_head_bytes", limits.max_head_bytes, 256, 1 << 20},
           {"max_fields", limits.max_fields, 1, 10'000},
           {"max_body_bytes", limits.max_body_bytes, 1, kMaxBytes},
           {"max_total_body_bytes", limits.max_total_body_bytes, 1, kMaxBytes},
           {"max_connections", limits.max_connections, 1, 1'000'000},
           {"max_unsent_bytes", limits.max_unsent_bytes, 1024, kMaxBytes},
           {"idle_timeout_ms", limits.idle_timeout_ms, 1, kMaxMs},
           {"head_timeout_ms", limits.head_timeout_ms, 1, kMaxMs},
           {"body_timeout_ms", limits.body_timeout_ms, 1, kMaxMs},
           {"min_body_bytes_per_second", limits.min_body_bytes_per_second, 1, kMaxBytes},
           {"write_timeout_ms", limits.write_timeout_ms, 1, kMaxMs}}};
}

}  // namespace

Result<> Validate(const HttpLimits& limits) {
  for (const Row& row : RowsOf(limits)) {
    if (row.value >= row.min && row.value <= row.max) continue;
    return Fail(ErrorCode::kInvalid, fmt::format("{} must be from {} to {}, got {}", row.name,
                                                 row.min, row.max, row.value));
  }
  return {};
}

std::string ToText(const HttpLimits& limits) {
  std::string text;
  for (const Row& row : RowsOf(limits)) text += fmt::format("{} = {}\n", row.name, row.value);
  return text;
}

}  // namespace baton
