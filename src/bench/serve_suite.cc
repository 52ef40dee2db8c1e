#include "bench/serve_suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/number_text.h"
#include "base/rng.h"
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

double SecondsNow(SteadyClock& clock) {
  return static_cast<double>(clock.NowNs()) * 1e-9;
}

// Tells whoever waits that something happened.
class Bell {
 public:
  void Ring() {
    const std::lock_guard lock(mutex_);
    condition_.notify_all();
  }
  // Waits until `done` holds, looking at each ring.
  template <typename Done>
  void Await(const Done& done) {
    std::unique_lock lock(mutex_);
    condition_.wait(lock, done);
  }
  // The same; calls `tell` while it waits.
  template <typename Done, typename Tell>
  void Await(const Done& done, const Tell& tell) {
    std::unique_lock lock(mutex_);
    while (!condition_.wait_for(lock, kTellSeconds, done)) {
      lock.unlock();
      tell();
      lock.lock();
    }
  }
  std::mutex& mutex() { return mutex_; }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
};

// What one request saw. Written on the engine's thread under the bell's lock.
class Client final : public RequestObserver {
 public:
  // `num_done` counts the answers of all that share it. Requires: both outlive the engine's hold.
  Client(Bell& bell, int64_t& num_done, double submitted)
      : bell_(bell), num_done_(num_done), submitted_(submitted) {}

  void OnPrefill(int64_t, int64_t) override {}
  void OnToken(const SampledToken&) override {
    {
      const std::lock_guard lock(bell_.mutex());
      tokens_.push_back(SecondsNow(clock_));
    }
    bell_.Ring();
  }
  void OnText(std::string_view) override {}
  void OnDone(Result<GenerationResult> result) override {
    {
      const std::lock_guard lock(bell_.mutex());
      result_ = std::move(result);
      is_done_ = true;
      ++num_done_;
    }
    bell_.Ring();
  }

  // Requires, for all: the bell's lock, or that it is done.
  bool is_done() const { return is_done_; }
  double submitted() const { return submitted_; }
  const std::vector<double>& tokens() const { return tokens_; }
  const Result<GenerationResult>& result() const { return result_; }
  double ttft() const { return tokens_.empty() ? 0 : tokens_.front() - submitted_; }
  double LongestGap() const {
    double longest = 0;
    for (size_t i = 1; i < tokens_.size(); ++i) {
      longest = std::max(longest, tokens_[i] - tokens_[i - 1]);
    }
    return longest;
  }

 private:
  Bell& bell_;
  int64_t& num_done_;  // Requires: the bell's lock
  SteadyClock clock_;
  double submitted_;
  std::vector<double> tokens_;
  bool is_done_ = false;
  Result<GenerationResult> result_;
};

// The gaps of streams before, during and after the reading of a prompt. Requires: the bell's lock.
void FindGaps(std::span<const std::shared_ptr<Client>> streams, double arrival, double end,
              LongPromptRow& row) {
  std::vector<double> before;
  std::vector<double> after;
  for (const auto& stream : streams) {
    const std::vector<double>& times = stream->tokens();
    for (size_t i = 1; i < times.size(); ++i) {
      const double gap = times[i] - times[i - 1];
      // The last ones, when all streams were running.
      if (times[i] <= arrival && times[i] > arrival - 8 * gap) before.push_back(gap);
      if (times[i - 1] > end) after.push_back(gap);
    }
  }
  row.gap_before = PercentilesOf(std::move(before)).p50;
  row.gap_after = PercentilesOf(std::move(after)).p50;
  for (const auto& stream : streams) {
    const std::vector<double>& times = stream->tokens();
    for (size_t i = 1; i < times.size(); ++i) {
      if (times[i] <= arrival || times[i - 1] > end) continue;
      const double gap = times[i] - times[i - 1];
      const double when = std::clamp((times[i] - arrival) / (end - arrival), 0.0, 1.0);
      const double without = row.gap_before + when * (row.gap_after - row.gap_before);
      row.longest_gap = std::max(row.longest_gap, gap);
      row.longest_gap_steps = std::max(row.longest_gap_steps, gap / without);
    }
  }
}

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
      Result<std::shared_ptr<Client>> alone = Submit(**engine, Request(prompt, 1), num_done);
      if (!alone) return Forward(alone);
      bell_.Await([&] { return (*alone)->is_done(); });
      row.alone_ttft = (*alone)->ttft();
    }
    Result<std::unique_ptr<Engine>> engine = MakeEngine();
    if (!engine) return Forward(engine);
    const RunningEngine running(**engine);
    std::vector<std::shared_ptr<Client>> streams;
    for (int64_t i = 0; i < clients; ++i) {
      const int64_t most = model_.context_tokens - options_.prompt_tokens;
      Result<std::shared_ptr<Client>> stream =
          Submit(**engine, Request(AnyTokens(options_.prompt_tokens), most), num_done);
      if (!stream) return Forward(stream);
      streams.push_back(*stream);
    }
    AwaitTokens(streams, kTokensAround);
    const double arrival = SecondsNow(clock_);
    Result<std::shared_ptr<Client>> late = Submit(**engine, Request(prompt, 1), num_done);
    if (!late) return Forward(late);
    bell_.Await([&] { return (*late)->is_done(); });
    row.ttft = (*late)->ttft();
    const double end = arrival + row.ttft;
    int64_t most_tokens = 0;
    {
      const std::lock_guard lock(bell_.mutex());
      for (const auto& stream : streams) {
        most_tokens = std::max(most_tokens, std::ssize(stream->tokens()));
      }
    }
    AwaitTokens(streams, most_tokens + kTokensAround);
    const std::lock_guard lock(bell_.mutex());
    FindGaps(streams, arrival, end, row);
    return row;
  }

 private:
  struct LoadKind {
    int64_t clients = 0;
    double rate = 0;
  };

  // A load under way, and what came of it. Times but `seconds` are the clock's.
  struct LoadState {
    std::vector<std::shared_ptr<Client>> clients = {};
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
  Result<std::shared_ptr<Client>> Submit(Engine& engine, GenerationRequest request,
                                         int64_t& num_done) {
    auto client = std::make_shared<Client>(bell_, num_done, SecondsNow(clock_));
    Result<uint64_t> id = engine.Submit(std::move(request), client);
    if (!id) return Forward(id);
    return client;
  }
  void AwaitTokens(const std::vector<std::shared_ptr<Client>>& clients, int64_t count) {
    bell_.Await([&] {
      return std::ranges::all_of(clients, [&](const auto& client) {
        return client->is_done() || std::ssize(client->tokens()) >= count;
      });
    });
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
    std::vector<std::shared_ptr<Client>>& clients = load.clients;
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
          bell_.Await([&] { return std::ssize(clients) - load.num_done < kind.clients; }, tell);
        } else {
          SleepUntil(first + arrivals[static_cast<size_t>(i)], load);
        }
        Result<std::shared_ptr<Client>> client =
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
      bell_.Await([&] { return load.num_done == std::ssize(clients); }, tell);
      load.seconds = SecondsNow(clock_) - first;
    }
    return RowOf(kind, load, (*engine)->Status());
  }

  Result<ServeRow> RowOf(const LoadKind& kind, const LoadState& load,
                         const EngineStatus& status) const {
    ServeRow row;
    row.clients = kind.clients;
    row.rate = kind.rate;
    row.num_requests = std::ssize(load.clients) + load.num_refused;
    row.num_refused = load.num_refused;
    row.seconds = load.seconds;
    std::vector<double> ttfts;
    std::vector<double> gaps;
    int64_t num_good = 0;
    int64_t num_output = 0;
    int64_t num_prompt = 0;
    int64_t num_cached = 0;
    for (const auto& client : load.clients) {
      if (!client->result()) return Forward(client->result());
      const GenerationFigures& figures = client->result()->figures;
      ttfts.push_back(client->ttft());
      for (size_t i = 1; i < client->tokens().size(); ++i) {
        gaps.push_back(client->tokens()[i] - client->tokens()[i - 1]);
      }
      num_good += client->ttft() <= options_.ttft_limit_seconds &&
                          client->LongestGap() <= options_.gap_limit_seconds
                      ? 1
                      : 0;
      num_output += figures.generated_tokens;
      num_prompt += figures.prompt_tokens;
      num_cached += figures.cached_tokens;
      row.preemptions += figures.preemptions;
    }
    const double steps_seconds =
        status.forward_seconds + status.sampling_seconds + status.other_seconds;
    row.ttft = PercentilesOf(std::move(ttfts));
    row.gaps = PercentilesOf(std::move(gaps));
    row.output_rate = static_cast<double>(num_output) / load.seconds;
    row.prompt_rate = static_cast<double>(num_prompt) / load.seconds;
    row.good_share = static_cast<double>(num_good) / static_cast<double>(row.num_requests);
    row.cached_share =
        num_prompt > 0 ? static_cast<double>(num_cached) / static_cast<double>(num_prompt) : 0;
    row.mean_running = status.steps == 0 ? 0
                                         : static_cast<double>(status.requests_in_steps) /
                                               static_cast<double>(status.steps);
    row.sampling_share = steps_seconds > 0 ? status.sampling_seconds / steps_seconds : 0;
    row.other_share = steps_seconds > 0 ? status.other_seconds / steps_seconds : 0;
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

Percentiles PercentilesOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const auto at = [&](double share) {
    const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
    return values[std::max<size_t>(rank, 1) - 1];
  };
  return {.p50 = at(0.50), .p90 = at(0.90), .p99 = at(0.99), .max = values.back()};
}

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
                     .ttft_limit_seconds = options.ttft_limit_seconds,
                     .gap_limit_seconds = options.gap_limit_seconds,
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
