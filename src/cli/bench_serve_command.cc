#include "cli/bench_serve_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/number_text.h"
#include "bench/serve_suite.h"
#include "cli/bench_options.h"
#include "cli/model_argument.h"
#include "cli/model_options.h"
#include "cli/note.h"
#include "cli/progress.h"
#include "cli/report_output.h"
#include "model/model_spec.h"

namespace baton {
namespace {

constexpr int64_t kMostClients = 1024;
constexpr int64_t kUsualRunning = 16;
constexpr int64_t kMostRequests = 1'000'000;
// Arrivals that take longer are told of in front.
constexpr double kNoteSeconds = 60;

class BenchServeCommand final : public Command {
 public:
  CommandText Text() const override {
    return {
        .name = "bench serve",
        .summary = "many requests at once: first tokens, gaps, throughput",
        .usages = {"MODEL [OPTION]..."},
        .description =
            {"Runs the engine as a server does, without HTTP, under two kinds of load: closed "
             "(so many clients, each asks again as soon as it is answered) and open (requests "
             "arrive at random at a rate, whether others are done or not). Prompts are random "
             "tokens, answers have a fixed length.",
             "With --long-prompt, another row for each number of clients lets one long prompt "
             "arrive among so many running answers: the longest gap that it tears into them, and "
             "its own time to the first token, beside that of the prompt alone."},
        .examples = {"baton bench serve model.gguf",
                     "baton bench serve model.gguf --clients 1,4,16 --rate 2 --prompt 512 "
                     "--output 64 --plot serve.svg",
                     "baton bench serve model.gguf --clients 8 --long-prompt 8000 --ctx 8192"}};
  }

  void Declare(OptionSet& options) override {
    model_.Declare(options);
    options.Group("Load (lists have commas between the numbers)");
    DeclareIntegers(options,
                    {.names = "--clients",
                     .value = "LIST",
                     .help = "Closed loads of so many clients (default: 1,4,16)"},
                    {.min = 1, .max = kMostClients}, &clients_);
    DeclareReals(options,
                 {.names = "--rate",
                  .value = "LIST",
                  .help = "Open loads of so many requests per second (default: none)"},
                 {.min = 1e-3, .max = 1e6}, &rates_);
    const IntegerRange tokens = {.min = 1, .max = ModelLimits::kMaxContext - 1};
    options.Integer(
        {.names = "--requests", .value = "N", .help = "Requests of each load (default: 32)"},
        {.min = 1, .max = kMostRequests}, &requests_);
    options.Integer(
        {.names = "--prompt", .value = "N", .help = "Tokens of a prompt (default: 512)"}, tokens,
        &prompt_);
    options.Integer({.names = "--shared",
                     .value = "N",
                     .help = "Of these, so many at the start are the same in all (default: 0)"},
                    {.min = 0, .max = tokens.max}, &shared_);
    options.Integer(
        {.names = "--output", .value = "N", .help = "Tokens of an answer (default: 64)"}, tokens,
        &output_);
    options.Integer({.names = "--long-prompt",
                     .value = "N",
                     .help = "Also one prompt of N tokens among the clients' answers"},
                    tokens, &long_prompt_);
    options.Integer(
        {.names = "--seed", .value = "N", .help = "Of prompts and arrivals (default: 0)"},
        {.min = 0, .max = (int64_t{1} << 62)}, &seed_);
    options.Group("The server");
    options.Integer({.names = "--max-running",
                     .value = "N",
                     .help = "Requests computed at the same time (default: 16; with --long-prompt "
                             "at least one more than clients)"},
                    {.min = 1, .max = kMostClients + 1}, &max_running_);
    DeclareMaxGapSteps(options, &max_gap_steps_);
    options.Integer({.names = "--kv-tokens",
                     .value = "N",
                     .help = "Tokens that the KV cache has room for (default: --max-running "
                             "contexts)"},
                    {.min = 1, .max = int64_t{1} << 40}, &kv_tokens_);
    compute_.Declare(options);
    options.Group("Report");
    options.Real({.names = "--ttft-limit",
                  .value = "SECONDS",
                  .help = "A good answer's first token takes no longer (default: 2)"},
                 {.min = 0, .max = 1e6}, &ttft_limit_);
    options.Real({.names = "--gap-limit",
                  .value = "SECONDS",
                  .help = "A good answer has no longer gap between tokens (default: 0.2)"},
                 {.min = 0, .max = 1e6}, &gap_limit_);
    DeclareQuick(options, &is_quick_);
    report_output_.Declare(options, "Write a plot as SVG besides: times and throughput by load");
  }

  Result<> Check() override {
    if (shared_.value_or(0) > Suite().prompt_tokens) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("--shared: {} tokens are more than the {} of a prompt", *shared_,
                              Suite().prompt_tokens));
    }
    if (Result<> sound = compute_.Check(); !sound) return sound;
    if (Result<> room = CheckLongPrompt(); !room) return room;
    return model_.Check();
  }

  Result<> Run(Console& console) override {
    if (Result<> opened = report_output_.Open(); !opened) return opened;
    Result<LoadOptions> load = compute_.ToLoadOptions(model_.path(), console.clock);
    if (!load) return Forward(load);
    load->max_running = static_cast<int32_t>(MaxRunning());
    load->max_gap_steps = max_gap_steps_.value_or(load->max_gap_steps);
    load->kv_tokens = kv_tokens_;
    ServeSuiteOptions suite = Suite();
    suite.load = *std::move(load);
    NoteArrivals(suite, console);
    const Result<ServeReport> report = Measure(suite, console);
    console.status.Clear();
    if (!report) return compute_.Finish(Forward(report), console);
    Result<> written =
        report_output_.Write({.text = [&](size_t columns) { return ServeAsText(*report, columns); },
                              .json = [&] { return ServeAsJson(*report); },
                              .svg = [&] { return ServeAsSvg(*report); }},
                             console);
    return EndOfQuick(is_quick_, compute_.Finish(std::move(written), console), console);
  }

 private:
  int64_t MostClients() const {
    int64_t most = 0;
    for (const int64_t clients : Suite().clients) most = std::max(most, clients);
    return most;
  }
  int64_t MaxRunning() const {
    return max_running_.value_or(long_prompt_ ? std::max(kUsualRunning, MostClients() + 1)
                                              : kUsualRunning);
  }

  // The streams keep their places to the end, and the long prompt is to meet them, not to wait.
  Result<> CheckLongPrompt() const {
    if (!long_prompt_) return {};
    if (Suite().clients.empty()) {
      return Fail(ErrorCode::kInvalid,
                  "--long-prompt comes among the answers of clients; give --clients, too");
    }
    if (MaxRunning() > MostClients()) return {};
    return Fail(ErrorCode::kInvalid,
                fmt::format("--long-prompt needs a place beside the answers of {}; "
                            "--max-running {} has none: make it {}, or leave it out",
                            CountOf(MostClients(), "client"), MaxRunning(), MostClients() + 1));
  }

  ServeSuiteOptions Suite() const {
    const bool q = is_quick_;
    const std::vector<int64_t> usual = q ? std::vector<int64_t>{2} : std::vector<int64_t>{1, 4, 16};
    return {.load = {},
            .clients = clients_.empty() && rates_.empty() ? usual : clients_,
            .rates = rates_,
            .num_requests = requests_.value_or(q ? 4 : 32),
            .prompt_tokens = prompt_.value_or(q ? 20 : 512),
            .shared_tokens = shared_.value_or(0),
            .output_tokens = output_.value_or(q ? 4 : 64),
            .long_prompt_tokens = long_prompt_.value_or(0),
            .limits = {.ttft = ttft_limit_.value_or(2.0), .gap = gap_limit_.value_or(0.2)},
            .seed = static_cast<uint64_t>(seed_.value_or(0))};
  }

  static Result<ServeReport> Measure(const ServeSuiteOptions& suite, Console& console) {
    std::optional<Progress> progress;
    const auto show = [&](const std::string& what, ProgressUnit unit, Output* lines) {
      progress.emplace(console.status, console.clock,
                       Progress::Options{
                           .what = what, .unit = unit, .columns = console.columns, .lines = lines});
    };
    show("Loading", ProgressUnit::kBytes, nullptr);
    return BenchServe(
        suite, {.loading =
                    [&](uint64_t done, uint64_t total) {
                      progress->Update(static_cast<int64_t>(done), static_cast<int64_t>(total));
                    },
                .begins =
                    [&](const std::string& what) {
                      show(what, ProgressUnit::kRequests, &console.err);
                      ShowStatus(console, what);
                    },
                .goes_on =
                    [&](const ServeMoment& moment) {
                      progress->UpdateWithLeast(moment.num_answered, moment.num_requests,
                                                moment.least_left_seconds);
                    }});
  }

  // Without the note, a slow load looks like an engine that hangs.
  static void NoteArrivals(const ServeSuiteOptions& suite, Console& console) {
    if (suite.rates.empty()) return;
    // At one request per second. At other rates they take 1 / rate of that.
    const double at_one = ArrivalsOf(suite.num_requests, {.rate = 1, .seed = suite.seed}).back();
    const double slowest = std::ranges::min(suite.rates);
    double all_seconds = 0;
    for (const double rate : suite.rates) all_seconds += at_one / rate;
    if (all_seconds < kNoteSeconds) return;
    const std::string all =
        suite.rates.size() == 1
            ? std::string()
            : fmt::format(" ({} at all {} rates)", DurationText(all_seconds), suite.rates.size());
    Note(fmt::format("the arrivals of {} take {} at {:g} per second{}; fewer --requests or a "
                     "higher --rate take less",
                     CountOf(suite.num_requests, "request"), DurationText(at_one / slowest),
                     slowest, all),
         console);
  }

  ModelArgument model_;
  ComputeOptions compute_;
  std::vector<int64_t> clients_;
  std::vector<double> rates_;
  std::optional<int64_t> requests_;
  std::optional<int64_t> prompt_;
  std::optional<int64_t> shared_;
  std::optional<int64_t> output_;
  std::optional<int64_t> long_prompt_;
  std::optional<int64_t> seed_;
  std::optional<int64_t> max_running_;
  std::optional<double> max_gap_steps_;
  std::optional<int64_t> kv_tokens_;
  std::optional<double> ttft_limit_;
  std::optional<double> gap_limit_;
  bool is_quick_ = false;
  ReportOutput report_output_;
};

}  // namespace

std::unique_ptr<Command> MakeBenchServeCommand() {
  return std::make_unique<BenchServeCommand>();
}

}  // namespace baton
