// `baton bench serve`: many requests at once on the engine, without HTTP.
//
// Clients and engine run in one process, the engine in a thread of its own; times are those a
// client sees. Two kinds of load: closed (so many clients, each of which asks again as soon as it
// is answered) and open (requests arrive at random, whether the others are done or not). A third
// kind of row lets one long prompt arrive among running streams. Prompts are random tokens, but for
// a part that all of them share if asked; answers have a fixed length.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/limits.h"
#include "bench/machine.h"
#include "bench/serve_figures.h"
#include "engine/engine_config.h"
#include "engine/loaded_model.h"

namespace baton {

struct ServeSuiteOptions {
  LoadOptions load;
  std::vector<int64_t> clients;  // of closed loads
  std::vector<double> rates;     // of open loads: requests per second
  int64_t num_requests = 0;      // of each row
  int64_t prompt_tokens = 0;
  int64_t shared_tokens = 0;  // of each prompt, from its start
  int64_t output_tokens = 0;
  // 0: no row of this kind; else one for each of `clients`, all below load.max_running, so that the
  // prompt meets the streams instead of waiting for the end of one.
  int64_t long_prompt_tokens = 0;
  GoodLimits limits;
  uint64_t seed = 0;
};

struct ServeReport {
  Machine machine;
  std::string path;
  std::string model_name;
  EngineConfig config;
  int num_threads = 1;
  int64_t prompt_tokens = 0;
  int64_t shared_tokens = 0;
  int64_t output_tokens = 0;
  GoodLimits limits;
  std::vector<ServeRow> rows;
  std::vector<LongPromptRow> long_rows;
};

// How the requests of an open load arrive: with exponential gaps, a function of seed and rate.
struct ArrivalLaw {
  double rate = 0;  // per second
  uint64_t seed = 0;
};
// Times of arrival: [num_requests] seconds, ascending, the first 0. Those at another rate are the
// same ones, stretched or pressed.
// Requires: law.rate > 0, num_requests >= 0.
std::vector<double> ArrivalsOf(int64_t num_requests, const ArrivalLaw& law);

// How far a load is.
struct ServeMoment {
  int64_t num_answered = 0;  // or refused
  int64_t num_requests = 0;
  double least_left_seconds = 0;  // until the last one arrives
};

// Who hears how far it is. Requires: all set. Threads: that of BenchServe.
struct ServeProgress {
  LoadProgress loading;                             // of the model
  BenchProgress begins;                             // a row of the report
  std::function<void(const ServeMoment&)> goes_on;  // once a second or more often, within a load
};

// Errors: as LoadModel and Engine::Make; invalid (prompt and answer exceed the context).
Result<ServeReport> BenchServe(const ServeSuiteOptions& options, const ServeProgress& progress);

// A table, wrapped to `columns`; one JSON object; times and rates by load.
// `columns`: of the screen, 0 for any width (TextTable::ToText).
std::string ServeAsText(const ServeReport& report, size_t columns);
std::string ServeAsJson(const ServeReport& report);
std::string ServeAsSvg(const ServeReport& report);

}  // namespace baton
