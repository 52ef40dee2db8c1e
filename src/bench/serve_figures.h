// The figures of `baton bench serve`: from what clients saw to rows of the report.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "bench/serve_client.h"
#include "engine/engine.h"

namespace baton {

// Of a list of times. Units: seconds.
struct Percentiles {
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double max = 0;
};
// By nearest rank; nothing of an empty list.
std::optional<Percentiles> PercentilesOf(std::vector<double> values);

struct ServeRow {
  int64_t clients = 0;  // 0: open
  double rate = 0;      // 0: closed
  int64_t num_requests = 0;
  int64_t num_refused = 0;  // of these, because the queue was full; the figures are of the others
  double seconds = 0;       // from the first submission to the last answer
  std::optional<Percentiles> ttft;  // from submission to the first token; none if all are refused
  std::optional<Percentiles> gaps;  // between two tokens of one answer, all answers
  double output_rate = 0;           // tokens per second, all answers
  double prompt_rate = 0;           // prompt tokens per second, found ones included
  double good_share = 0;            // of the requests; a refused one is none
  double cached_share = 0;          // of the prompt tokens
  int64_t preemptions = 0;
  double mean_running = 0;    // requests computed per step
  double sampling_share = 0;  // of the time of steps
  double other_share = 0;     // of the time of steps: all but forward and sampling
};

// One long prompt among streams. Units: seconds.
struct LongPromptRow {
  int64_t clients = 0;
  int64_t prompt_tokens = 0;
  double alone_ttft = 0;
  double ttft = 0;
  // A stream's gap without the prompt: medians shortly before it arrived and after it was read. The
  // streams grow meanwhile, and so does their step.
  double gap_before = 0;
  double gap_after = 0;
  double longest_gap = 0;  // of any stream while it was read
  // The most that a gap was of one without the prompt at the same time, between the two medians by
  // a straight line.
  double longest_gap_steps = 0;
};

// Limits of a good answer. Units: seconds.
struct GoodLimits {
  double ttft = 0;
  double gap = 0;
};

// What a row counts. Requires: all clients are done.
struct ServeOutcome {
  std::span<const std::shared_ptr<ServeClient>> clients;
  int64_t num_refused = 0;
  double seconds = 0;  // from the first submission to the last answer
  GoodLimits limits;
};

// A row without its kind of load: clients and rate are 0.
// Errors: the first of a client's.
Result<ServeRow> ServeRowOf(const ServeOutcome& outcome, const EngineStatus& status);

// When a prompt was read. Units: seconds of the steady clock.
struct ReadingTime {
  double begin = 0;
  double end = 0;
};

// Fills in the gaps of streams before, during and after the reading of a prompt. A stream: when
// each of its tokens came, ascending.
void FindGaps(std::span<const std::vector<double>> streams, const ReadingTime& reading,
              LongPromptRow& row);

}  // namespace baton
