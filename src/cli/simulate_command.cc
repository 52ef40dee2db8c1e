#include "cli/simulate_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/number_text.h"
#include "cli/bench_options.h"
#include "cli/report_output.h"
#include "cli/simulate_report.h"
#include "simulate/simulation.h"
#include "simulate/step_times.h"
#include "simulate/workload.h"

namespace baton {
namespace {

constexpr int64_t kMaxCount = 1 << 20;
constexpr int64_t kMaxContext = 1 << 24;
constexpr int64_t kMaxKvTokens = 1 << 25;
constexpr double kMaxSeconds = 1e9;
constexpr double kStatusAfterSeconds = 1;

class SimulateCommand final : public Command {
 public:
  CommandText Text() const override {
    return {
        .name = "simulate",
        .summary = "what many requests at once would see, without a model",
        .usages = {"[OPTION]...", "--workload FILE [OPTION]..."},
        .description =
            {"Runs the engine's scheduler on a virtual clock: requests arrive, wait, are read and "
             "answered as they would be, but a step takes what a formula says instead of being "
             "computed. A day of traffic takes seconds. The rules are in docs/scheduling.md.",
             "DIST is a number of tokens (512), a range (100..900), lognormal:MEDIAN,SIGMA or a "
             "histogram of lengths and weights (64=5,512=3,4096=2). Arrivals are Poisson. A "
             "workload from a file has a JSON object in each line: arrival (seconds), "
             "prompt_tokens, output_tokens, and if wanted prefix, prefix_tokens, chat, priority, "
             "follows, cancel_after.",
             "A step takes A + B per prompt token + C per prompt token and position it attends to "
             "+ D per decode row + E per decode row and position. The usual times are those of "
             "SmolLM2-135M on two cores."},
        .examples = {"baton simulate --rate 2 --duration 3600 --prompt-tokens lognormal:400,0.8",
                     "baton simulate --rate 0.5 --burst 8 --shared-prefix 1000 --plot load.svg",
                     "baton simulate --workload day.jsonl --kv-tokens 65536 --json"}};
  }

  void Declare(OptionSet& options) override {
    DeclareLoad(options);
    DeclareScheduler(options);
    DeclareTimes(options);
    options.Group("Report");
    output_.Declare(options,
                    "Write a plot as SVG besides: time to first token and gaps between "
                    "tokens over the time");
  }

  Result<> Check() override {
    if (const std::string_view option = GeneratorOption(); workload_path_ && !option.empty()) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("--workload has its own arrivals, and {} is of generated ones; leave "
                              "one of them out",
                              option));
    }
    if (time_model_path_ && step_times_) {
      return Fail(ErrorCode::kInvalid, "--time-model and --step-times exclude each other");
    }
    if (!shared_prefix_ && (prefix_share_ || prefixes_)) {
      return Fail(ErrorCode::kInvalid,
                  "--prefix-share and --prefixes go with --shared-prefix only");
    }
    if (think_ && turns_.value_or(1) == 1) {
      return Fail(ErrorCode::kInvalid, "--think goes with --turns only");
    }
    const double arrivals =
        rate_.value_or(1) * duration_.value_or(3600) * static_cast<double>(turns_.value_or(1));
    if (arrivals > 0.9 * static_cast<double>(kMaxArrivals)) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("--rate times --duration times --turns are {:.0f} requests; at most "
                              "{} can be simulated",
                              arrivals, kMaxArrivals));
    }
    if (KvTokens() < Context()) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("--kv-tokens {} cannot hold one sequence of --ctx {}; give "
                              "--kv-tokens {} or more, or --ctx {} or less",
                              KvTokens(), Context(), Context(), KvTokens()));
    }
    return {};
  }

  Result<> Run(Console& console) override {
    if (Result<> opened = output_.Open(); !opened) return opened;
    Result<StepTimeCoefficients> times = Times(console);
    if (!times) return Forward(times);
    const Result<Workload> workload = Load(console);
    if (!workload) return Forward(workload);
    const int64_t begin_ns = console.clock.NowNs();
    SimulationOptions options = Options(*times);
    options.stop = [&](double seconds) {
      const double real = static_cast<double>(console.clock.NowNs() - begin_ns) * 1e-9;
      if (real >= kStatusAfterSeconds) {
        const std::string said = "Simulating: " + DurationText(seconds);
        console.status.Draw(said.substr(0, static_cast<size_t>(std::max(console.columns - 1, 0))));
      }
      return false;
    };
    const Result<SimulationResult> result = Simulate(*workload, options);
    console.status.Clear();
    if (!result) return Forward(result);
    return output_.Write(
        {.text = [&](size_t columns) { return SimulationAsText(*result, columns); },
         .json = [&] { return SimulationAsJson(*result, options); },
         .svg = [&] { return SimulationAsSvg(*result, Subtitle(*result)); }},
        console);
  }

 private:
  void DeclareLength(OptionSet& options, OptionText text,
                     std::optional<LengthDistribution>* lengths) {
    options.Parsed(std::move(text), [lengths](const std::string& given) -> Result<> {
      Result<LengthDistribution> parsed = LengthDistribution::Parse(given);
      if (!parsed) return Forward(parsed);
      *lengths = *std::move(parsed);
      return {};
    });
  }

  void DeclareLoad(OptionSet& options) {
    options.Group("Load");
    options.File({.names = "--workload",
                  .value = "FILE",
                  .help = "Requests from a file ('-' for standard input) instead of generated ones",
                  .dash_is_input = true},
                 &workload_path_);
    options.Real({.names = "--rate", .value = "R", .help = "Requests a second (default: 1)"},
                 {.min = 1e-6, .max = 1e6}, &rate_);
    options.Real({.names = "--duration",
                  .value = "S",
                  .help = "Seconds in which they arrive (default: 3600)"},
                 {.min = 1e-3, .max = kMaxSeconds}, &duration_);
    options.Integer({.names = "--burst",
                     .value = "N",
                     .help = "So many arrive at the same moment (default: 1)"},
                    {.min = 1, .max = kMaxCount}, &burst_);
    DeclareLength(options,
                  {.names = "--prompt-tokens",
                   .value = "DIST",
                   .help = "Lengths of prompts (default: lognormal:400,0.8)"},
                  &prompt_tokens_);
    DeclareLength(options,
                  {.names = "--output-tokens",
                   .value = "DIST",
                   .help = "Lengths of answers (default: lognormal:100,0.6)"},
                  &output_tokens_);
    options.Integer({.names = "--shared-prefix",
                     .value = "N",
                     .help = "Tokens in front of a prompt that others have, too"},
                    {.min = 1, .max = kMaxContext}, &shared_prefix_);
    options.Real({.names = "--prefix-share",
                  .value = "P",
                  .help = "Part of the requests that have such a prefix (default: 1)"},
                 {.min = 0, .max = 1}, &prefix_share_);
    options.Integer(
        {.names = "--prefixes", .value = "N", .help = "Different prefixes (default: 1)"},
        {.min = 1, .max = kMaxCount}, &prefixes_);
    options.Integer({.names = "--turns",
                     .value = "N",
                     .help = "Turns of a chat; each brings a prompt and what was said before "
                             "(default: 1)"},
                    {.min = 1, .max = 1000}, &turns_);
    options.Real({.names = "--think",
                  .value = "S",
                  .help = "Seconds between an answer and the next turn (default: 5)"},
                 {.min = 0, .max = kMaxSeconds}, &think_);
    options.Real({.names = "--priority-share",
                  .value = "P",
                  .help = "Part of the requests that have a higher priority (default: 0)"},
                 {.min = 0, .max = 1}, &priority_share_);
    options.Integer({.names = "--seed", .value = "N", .help = "Of all that is drawn (default: 0)"},
                    {.min = 0, .max = INT64_MAX}, &seed_);
  }

  void DeclareScheduler(OptionSet& options) {
    options.Group("Scheduler");
    const auto integer = [&](const char* name, const char* help, IntegerRange range,
                             std::optional<int64_t>* value) {
      options.Integer({.names = name, .value = "N", .help = help}, range, value);
    };
    integer("--ctx", "Tokens of a sequence, at most (default: 8192)",
            {.min = 1, .max = kMaxContext}, &context_);
    integer("--max-running", "Requests computed at the same time (default: 16)",
            {.min = 1, .max = 4096}, &max_running_);
    integer("--kv-tokens", "Tokens that the KV cache holds (default: --ctx times --max-running)",
            {.min = 1, .max = kMaxKvTokens}, &kv_tokens_);
    integer("--chunk", "Prompt tokens of a step, at most (default: 512)",
            {.min = 1, .max = kMaxCount}, &chunk_);
    options.Real({.names = "--max-gap-steps",
                  .value = "X",
                  .help = "The longest step beside streams, in decode steps (default: 5)"},
                 {.min = 1, .max = 1e6}, &max_gap_steps_);
    integer("--max-prefill-wait", "Each prompt advances once in so many steps (default: 4)",
            {.min = 1, .max = kMaxCount}, &max_prefill_wait_);
    integer("--long-prompt", "Prompts with more tokens are long (default: 2048)",
            {.min = 1, .max = kMaxContext}, &long_prompt_);
    integer("--max-long-prefills", "Long prompts read at a time (default: 2)",
            {.min = 1, .max = 4096}, &max_long_prefills_);
    integer("--max-passes", "Younger requests that may pass the oldest (default: 16)",
            {.min = 0, .max = kMaxCount}, &max_passes_);
    integer("--queue",
            "Requests that may wait, as long as all that wait and run have 2^29 tokens at most, "
            "with their answers (default: 1024)",
            {.min = 1, .max = kMaxCount}, &queue_);
    options.Flag({.names = "--no-prefix-cache",
                  .value = "",
                  .help = "Compute every prompt from its first token"},
                 &no_prefix_cache_);
  }

  void DeclareTimes(OptionSet& options) {
    options.Group("Step times");
    options.Parsed({.names = "--step-times",
                    .value = "A,B,C,D,E",
                    .help = "Seconds (default: 4.4e-3,5.5e-4,2.6e-7,8.3e-4,7e-7)"},
                   [this](const std::string& given) { return TakeStepTimes(given); });
    options.File({.names = "--time-model",
                  .value = "FILE",
                  .help = "The same from a JSON object: per_step, per_prefill_token, "
                          "per_prefill_context, per_decode_row, per_decode_context",
                  .dash_is_input = true},
                 &time_model_path_);
    options.Real({.names = "--noise",
                  .value = "SD",
                  .help = "Relative standard deviation of a step's time (default: 0)"},
                 {.min = 0, .max = 1}, &noise_);
  }

  Result<> TakeStepTimes(const std::string& given) {
    std::vector<double> numbers;
    for (const std::string& word : SplitList(given)) {
      const std::optional<double> number = ParseReal(word, {.min = 0, .max = 1000});
      if (number) numbers.push_back(*number);
      if (!number || numbers.size() > 5) numbers.resize(6);
    }
    if (numbers.size() != 5) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("takes five numbers of seconds from 0 to 1000 with commas between "
                              "them, not '{}'",
                              given));
    }
    step_times_ = StepTimeCoefficients{.per_step = numbers[0],
                                       .per_prefill_token = numbers[1],
                                       .per_prefill_context = numbers[2],
                                       .per_decode_row = numbers[3],
                                       .per_decode_context = numbers[4]};
    return {};
  }

  // The first option of generated arrivals that is given; empty if none is.
  std::string_view GeneratorOption() const {
    const std::pair<bool, std::string_view> options[] = {
        {rate_.has_value(), "--rate"},
        {duration_.has_value(), "--duration"},
        {burst_.has_value(), "--burst"},
        {prompt_tokens_.has_value(), "--prompt-tokens"},
        {output_tokens_.has_value(), "--output-tokens"},
        {shared_prefix_.has_value(), "--shared-prefix"},
        {prefix_share_.has_value(), "--prefix-share"},
        {prefixes_.has_value(), "--prefixes"},
        {turns_.has_value(), "--turns"},
        {think_.has_value(), "--think"},
        {priority_share_.has_value(), "--priority-share"}};
    for (const auto& [is_given, name] : options) {
      if (is_given) return name;
    }
    return {};
  }
  int64_t Context() const { return context_.value_or(8192); }
  int64_t KvTokens() const {
    return kv_tokens_.value_or(std::min(Context() * max_running_.value_or(16), kMaxKvTokens));
  }

  Result<StepTimeCoefficients> Times(Console& console) const {
    if (!time_model_path_) return step_times_.value_or(kSmallModelTimes);
    const Result<std::string> text = ReadTextOrInput(*time_model_path_, console.in);
    if (!text) return Forward(text);
    Result<StepTimeCoefficients> times = ParseStepTimes(*text);
    if (times) return times;
    return Fail(times.error().code, *time_model_path_ + ": " + times.error().message);
  }

  Result<Workload> Load(Console& console) const {
    if (!workload_path_) return GenerateWorkload(Generator());
    const Result<std::string> text = ReadTextOrInput(*workload_path_, console.in);
    if (!text) return Forward(text);
    Result<Workload> workload = ParseWorkload(*text);
    if (workload && workload->empty()) {
      workload = Fail(ErrorCode::kInvalid,
                      "holds no request; 'baton simulate --help' tells what its lines are");
    }
    if (workload) return workload;
    const std::string name = *workload_path_ == "-" ? "standard input" : *workload_path_;
    return Fail(workload.error().code, name + ": " + workload.error().message);
  }

  WorkloadOptions Generator() const {
    WorkloadOptions options;
    options.rate = rate_.value_or(1);
    options.duration = duration_.value_or(3600);
    options.burst = burst_.value_or(1);
    const auto lengths = [](const std::optional<LengthDistribution>& given, const char* usual) {
      return given ? *given : *LengthDistribution::Parse(usual);
    };
    options.prompt_tokens = lengths(prompt_tokens_, "lognormal:400,0.8");
    options.output_tokens = lengths(output_tokens_, "lognormal:100,0.6");
    options.prefix_tokens = shared_prefix_.value_or(0);
    options.prefix_share = shared_prefix_ ? prefix_share_.value_or(1) : 0;
    options.num_prefixes = prefixes_.value_or(1);
    options.turns = turns_.value_or(1);
    options.think_seconds = think_.value_or(5);
    options.high_share = priority_share_.value_or(0);
    options.seed = static_cast<uint64_t>(seed_.value_or(0));
    return options;
  }

  SimulationOptions Options(const StepTimeCoefficients& times) const {
    SimulationOptions options;
    options.limits = {.max_running = static_cast<int32_t>(max_running_.value_or(16)),
                      .max_context = Context(),
                      .max_prefill_rows = chunk_.value_or(512),
                      .max_queue_requests = queue_.value_or(1024),
                      .max_queue_tokens = queue_.value_or(1024) * Context(),
                      .max_gap_steps = max_gap_steps_.value_or(5),
                      .max_prefill_wait = static_cast<int32_t>(max_prefill_wait_.value_or(4)),
                      .long_prompt_tokens = long_prompt_.value_or(2048),
                      .max_long_prefills = static_cast<int32_t>(max_long_prefills_.value_or(2)),
                      .max_passes = static_cast<int32_t>(max_passes_.value_or(16)),
                      .prefix_cache = !no_prefix_cache_};
    options.kv_tokens = KvTokens();
    options.times = times;
    options.known = MeasuredModel(times);
    options.noise = noise_.value_or(0);
    options.seed = static_cast<uint64_t>(seed_.value_or(0));
    return options;
  }

  std::string Subtitle(const SimulationResult& result) const {
    return fmt::format("{} in {}, {} running at most, {}, {}", CountOf(result.arrived, "request"),
                       DurationText(result.seconds), max_running_.value_or(16),
                       CountOf(result.num_blocks, "block"),
                       CountOf(static_cast<int64_t>(result.counts.preemptions), "preemption"));
  }

  std::optional<std::string> workload_path_;
  std::optional<double> rate_;
  std::optional<double> duration_;
  std::optional<int64_t> burst_;
  std::optional<LengthDistribution> prompt_tokens_;
  std::optional<LengthDistribution> output_tokens_;
  std::optional<int64_t> shared_prefix_;
  std::optional<double> prefix_share_;
  std::optional<int64_t> prefixes_;
  std::optional<int64_t> turns_;
  std::optional<double> think_;
  std::optional<double> priority_share_;
  std::optional<int64_t> seed_;
  std::optional<int64_t> context_;
  std::optional<int64_t> max_running_;
  std::optional<int64_t> kv_tokens_;
  std::optional<int64_t> chunk_;
  std::optional<double> max_gap_steps_;
  std::optional<int64_t> max_prefill_wait_;
  std::optional<int64_t> long_prompt_;
  std::optional<int64_t> max_long_prefills_;
  std::optional<int64_t> max_passes_;
  std::optional<int64_t> queue_;
  bool no_prefix_cache_ = false;
  std::optional<StepTimeCoefficients> step_times_;
  std::optional<std::string> time_model_path_;
  std::optional<double> noise_;
  ReportOutput output_;
};

}  // namespace

std::unique_ptr<Command> MakeSimulateCommand() {
  return std::make_unique<SimulateCommand>();
}

}  // namespace baton
