// What arrives at a simulated engine, and when.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "simulate/length_distribution.h"

namespace baton {

// A request. Its tokens are a function of its numbers: the first prefix_tokens of `prefix` and
// position, the others, prompt and answer, of `stream` and position. So requests of one prefix
// share it, and a turn of a chat (the same stream, a longer prompt) begins with the turns before.
struct Arrival {
  // From the start; if it follows another one, from the end of that one.
  double seconds = 0;
  int64_t prompt_tokens = 1;  // the prefix is a part of them
  int64_t output_tokens = 1;
  uint64_t stream = 0;
  uint64_t prefix = 0;
  int64_t prefix_tokens = 0;
  int32_t priority = 0;
  int64_t follows = -1;  // the index of an earlier one
  // When its client goes, from its arrival.
  double cancel_after = std::numeric_limits<double>::infinity();

  friend bool operator==(const Arrival&, const Arrival&) = default;
};
using Workload = std::vector<Arrival>;

inline constexpr size_t kMaxArrivals = 10'000'000;

// Requests that come on their own. Units: seconds.
struct WorkloadOptions {
  double rate = 1;       // requests (of chats: first turns) in a second
  double duration = 60;  // the time in which they arrive
  int64_t burst = 1;     // so many arrive at the same moment, at the same rate in the mean
  LengthDistribution prompt_tokens;
  LengthDistribution output_tokens;
  double prefix_share = 0;    // requests that begin with a shared prefix
  int64_t prefix_tokens = 0;  // of a shared prefix; the prompt's own tokens come on top
  int64_t num_prefixes = 1;
  int64_t turns = 1;         // of each chat; every turn brings a new prompt of its own
  double think_seconds = 5;  // from an answer to the next turn
  double high_share = 0;     // requests of priority 1
  uint64_t seed = 0;
};

// Poisson arrivals in the order of time. Errors: exhausted (more than kMaxArrivals).
Result<Workload> GenerateWorkload(const WorkloadOptions& options);

// One JSON object in a line, with `arrival`, `prompt_tokens`, `output_tokens` and, as wanted,
// `prefix`, `prefix_tokens`, `chat` (requests of one number are turns of one chat), `priority`,
// `follows` (the line of an earlier request, from 0) and `cancel_after`. Empty lines are passed.
// Errors: corrupt, naming the line and the field; exhausted.
Result<Workload> ParseWorkload(std::string_view text);

}  // namespace baton
