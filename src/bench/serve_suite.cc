#include "bench/serve_suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/number_text.h"
#include "base/rng.h"
#include "bench/serve_client.h"
#include "engine/engine.h"

namespace baton {
namespace {

// Tokens of a stream before a long prompt arrives, and after it was read.
constexpr int64_t kTokensAround = 24;
// Between two words on how far a load is.
constexpr std::chrono::duration<double> kTellSeconds(0.5);
// Of the random streams of a seed.
constexpr uint64_t kPromptStream = 1;
constexpr uint64_t kArrivalStream = 2;

// The engine in a thread of its own, as long as the object lives.
class RunningEngine {
 public:
  explicit RunningEngine(Engine& engine)
      : engine_(engine), thread_([this] { run_ = engine_.Run(); }) {}
  ~RunningEngine() {
    engine_.Stop(/*drain=*/false);
    thread_.join();
  }

 private:
  Engine& engine_;
  Result<> run_;
  std::thread thread_;
};

class ServeBench {
 public:
  ServeBench(const ServeSuiteOptions& options, const ServeProgress& progress, LoadedModel& model)
      : options_(options),
        progress_(progress),
        model_(model),
        random_({.seed = options.seed, .stream = kPromptStream}) {
    for (int64_t i = 0; i < options.shared_tokens; ++i) shared_.push_back(AnyToken());
  }

  // A fresh engine, so that no row finds what another has computed.
  Result<std::unique_ptr<Engine>> MakeEngine() {
    Result<std::unique_ptr<Engine>> engine =
        Engine::Make(model_, EngineConfigOf(model_.options, model_.context_tokens));
    if (!engine) return engine;
    (*engine)->TakeCacheMemory();
    if (Result<> calibrated = (*engine)->Calibrate(); !calibrated) return Forward(calibrated);
    return engine;
  }

  Result<ServeRow> Closed(int64_t clients) { return Load({.clients = clients}); }
  Result<ServeRow> Open(double rate) { return Load({.rate = rate}); }

  Result<LongPromptRow> LongPrompt(int64_t clients) {
    LongPromptRow row{.clients = clients, .prompt_tokens = options_.long_prompt_tokens};
    const std::vector<TokenId> prompt = AnyTokens(options_.long_prompt_tokens);
    int64_t num_done = 0;  // nobody asks for it
    {
      Result<std::unique_ptr<Engine>> engine = MakeEngine();
      if (!engine) return Forward(engine);
      const RunningEngine running(**engine);
      Result<std::shared_ptr<ServeClient>> alone = Submit(**engine, Request(prompt, 1), num_done);
      if (!alone) return Forward(alone);
      bell_.Await([&] { return (*alone)->is_done(); });
      row.alone_ttft = (*alone)->ttft();
    }
    Result<std::unique_ptr<Engine>> engine = MakeEngine();
    if (!engine) return Forward(engine);
    const RunningEngine running(**engine);
    std::vector<std::shared_ptr<ServeClient>> streams;
    for (int64_t i = 0; i < clients; ++i) {
      const int64_t most = model_.context_tokens - options_.prompt_tokens;
      Result<std::shared_ptr<ServeClient>> stream =
          Submit(**engine, Request(AnyTokens(options_.prompt_tokens), most), num_done);
      if (!stream) return Forward(stream);
      streams.push_back(*stream);
    }
    AwaitTokens(streams, kTokensAround);
    const double arrival = SecondsNow(clock_);
    Result<std::shared_ptr<ServeClient>> late = Submit(**engine, Request(prompt, 1), num_done);
    if (!late) return Forward(late);
    bell_.Await([&] { return (*late)->is_done(); });
    row.ttft = (*late)->ttft();
    size_t most_tokens = 0;
    for (const std::vector<double>& times : TokenTimes(streams)) {
      most_tokens = std::max(most_tokens, times.size());
    }
    AwaitTokens(streams, static_cast<int64_t>(most_tokens) + kTokensAround);
    FindGaps(TokenTimes(streams), {.begin = arrival, .end = arrival + row.ttft}, row);
    return row;
  }

 private:
  struct LoadKind {
    int64_t clients = 0;
    double rate = 0;
  };

  // A load under way, and what came of it. Times but `seconds` are the clock's.
  struct LoadState {
    std::vector<std::shared_ptr<ServeClient>> clients = {};
    int64_t num_done = 0;  // of the clients. Requires: the bell's lock
    int64_t num_refused = 0;
    double last_arrival = 0;
    double told = 0;  // when it was last said how far the load is
    double seconds = 0;
  };

  TokenId AnyToken() {
    const auto vocab_size = static_cast<uint64_t>(model_.model->spec().vocab_size);
    return static_cast<TokenId>(random_.NextBelow(vocab_size));
  }
  std::vector<TokenId> AnyTokens(int64_t count) {
    std::vector<TokenId> tokens(shared_.begin(),
                                shared_.begin() + std::min<int64_t>(count, std::ssize(shared_)));
    while (std::ssize(tokens) < count) tokens.push_back(AnyToken());
    return tokens;
  }
  static GenerationRequest Request(std::vector<TokenId> prompt, int64_t max_tokens) {
    GenerationRequest request;
    request.prompt = std::move(prompt);
    request.sampling.temperature = 0;
    request.max_tokens = max_tokens;
    request.ignore_end_tokens = true;
    return request;
  }
  Result<std::shared_ptr<ServeClient>> Submit(Engine& engine, GenerationRequest request,
                                              int64_t& num_done) {
    auto client = std::make_shared<ServeClient>(bell_, num_done, SecondsNow(clock_));
    Result<uint64_t> id = engine.Submit(std::move(request), client);
    if (!id) return Forward(id);
    return client;
  }
  void AwaitTokens(const std::vector<std::shared_ptr<ServeClient>>& clients, int64_t count) {
    bell_.Await([&] {
      return std::ranges::all_of(clients, [&](const auto& client) {
        return client->is_done() || std::ssize(client->tokens()) >= count;
      });
    });
  }

  std::vector<std::vector<double>> TokenTimes(
      const std::vector<std::shared_ptr<ServeClient>>& clients) {
    std::vector<std::vector<double>> times;
    const std::lock_guard lock(bell_.mutex());
    for (const auto& client : clients) times.push_back(client->tokens());
    return times;
  }

  // Says how far a load is, unless that was said just now.
  void Tell(LoadState& load) {
    const double now = SecondsNow(clock_);
    if (now - load.told < kTellSeconds.count()) return;
    load.told = now;
    ServeMoment moment{.num_answered = load.num_refused,
                       .num_requests = options_.num_requests,
                       .least_left_seconds = std::max(0.0, load.last_arrival - now)};
    {
      const std::lock_guard lock(bell_.mutex());
      moment.num_answered += load.num_done;
    }
    progress_.goes_on(moment);
  }

  void SleepUntil(double when, LoadState& load) {
    for (double left = when - SecondsNow(clock_); left > 0; left = when - SecondsNow(clock_)) {
      std::this_thread::sleep_for(std::min(std::chrono::duration<double>(left), kTellSeconds));
      Tell(load);
    }
  }

  Result<ServeRow> Load(const LoadKind& kind) {
    LoadState load;
    std::vector<std::shared_ptr<ServeClient>>& clients = load.clients;
    const auto tell = [&] { Tell(load); };
    Result<std::unique_ptr<Engine>> engine = MakeEngine();
    if (!engine) return Forward(engine);
    std::vector<double> arrivals;
    if (kind.clients == 0) {
      arrivals = ArrivalsOf(options_.num_requests, {.rate = kind.rate, .seed = options_.seed});
    }
    {
      const RunningEngine running(**engine);
      const double first = SecondsNow(clock_);
      load.told = first;
      load.last_arrival = first + (arrivals.empty() ? 0 : arrivals.back());
      for (int64_t i = 0; i < options_.num_requests; ++i) {
        if (kind.clients > 0) {
          bell_.Await([&] { return std::ssize(clients) - load.num_done < kind.clients; },
                      kTellSeconds, tell);
        } else {
          SleepUntil(first + arrivals[static_cast<size_t>(i)], load);
        }
        Result<std::shared_ptr<ServeClient>> client =
            Submit(**engine, Request(AnyTokens(options_.prompt_tokens), options_.output_tokens),
                   load.num_done);
        if (client) {
          clients.push_back(*client);
        } else if (client.error().code == ErrorCode::kExhausted) {
          ++load.num_refused;  // overload is what such a load may be for
        } else {
          return Forward(client);
        }
        Tell(load);
      }
      bell_.Await([&] { return load.num_done == std::ssize(clients); }, kTellSeconds, tell);
      load.seconds = SecondsNow(clock_) - first;
    }
    Result<ServeRow> row = ServeRowOf({.clients = clients,
                                       .num_refused = load.num_refused,
                                       .seconds = load.seconds,
                                       .limits = options_.limits},
                                      (*engine)->Status());
    if (!row) return Forward(row);
    row->clients = kind.clients;
    row->rate = kind.rate;
    return row;
  }

  const ServeSuiteOptions& options_;
  const ServeProgress& progress_;
  LoadedModel& model_;
  RandomStream random_;
  std::vector<TokenId> shared_;
  SteadyClock clock_;
  Bell bell_;
};

}  // namespace

std::vector<double> ArrivalsOf(int64_t num_requests, const ArrivalLaw& law) {
  CHECK_GT(law.rate, 0);
  CHECK_GE(num_requests, 0);
  RandomStream random({.seed = law.seed, .stream = kArrivalStream});
  std::vector<double> arrivals;
  double due = 0;
  for (int64_t i = 0; i < num_requests; ++i) {
    arrivals.push_back(due);
    due += -std::log(1.0 - random.NextUniform()) / law.rate;
  }
  return arrivals;
}

Result<ServeReport> BenchServe(const ServeSuiteOptions& options, const ServeProgress& progress) {
  Result<LoadedModel> model = LoadModel(options.load, progress.loading);
  if (!model) return Forward(model);
  const int64_t longest =
      std::max(options.prompt_tokens + options.output_tokens,
               options.long_prompt_tokens > 0 ? options.long_prompt_tokens + 1 : 0);
  if (longest > model->context_tokens) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("prompt and answer take {}, and the context has {}; raise --ctx, or "
                            "take shorter ones",
                            CountOf(longest, "token"), CountText(model->context_tokens)));
  }
  ServeReport report{.machine = ReadMachine({}),
                     .path = options.load.path,
                     .model_name = model->model->spec().name,
                     .config = EngineConfigOf(model->options, model->context_tokens),
                     .num_threads = options.load.num_threads,
                     .prompt_tokens = options.prompt_tokens,
                     .shared_tokens = options.shared_tokens,
                     .output_tokens = options.output_tokens,
                     .limits = options.limits,
                     .rows = {},
                     .long_rows = {}};
  ServeBench bench(options, progress, *model);
  for (const int64_t clients : options.clients) {
    progress.begins(CountOf(clients, "client"));
    Result<ServeRow> row = bench.Closed(clients);
    if (!row) return Forward(row);
    report.rows.push_back(*row);
  }
  for (const double rate : options.rates) {
    progress.begins(fmt::format("{:g} requests/s", rate));
    Result<ServeRow> row = bench.Open(rate);
    if (!row) return Forward(row);
    report.rows.push_back(*row);
  }
  if (options.long_prompt_tokens == 0) return report;
  for (const int64_t clients : options.clients) {
    progress.begins(fmt::format("a prompt of {} among {}",
                                CountOf(options.long_prompt_tokens, "token"),
                                CountOf(clients, "stream")));
    Result<LongPromptRow> row = bench.LongPrompt(clients);
    if (!row) return Forward(row);
    report.long_rows.push_back(*row);
  }
  return report;
}

}  // namespace baton
