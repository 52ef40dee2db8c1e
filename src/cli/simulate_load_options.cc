#include "cli/simulate_load_options.h"

#include <fmt/format.h>

#include <utility>

#include "cli/input.h"
#include "cli/simulate_limits.h"

namespace baton {
namespace {

void DeclareLength(OptionSet& options, OptionText text,
                   std::optional<LengthDistribution>* lengths) {
  options.Parsed(std::move(text), [lengths](const std::string& given) -> Result<> {
    Result<LengthDistribution> parsed = LengthDistribution::Parse(given);
    if (!parsed) return Forward(parsed);
    *lengths = *std::move(parsed);
    return {};
  });
}

}  // namespace

void SimulateLoadOptions::Declare(OptionSet& options) {
  options.Group("Load");
  options.File({.names = "--workload",
                .value = "FILE",
                .help = "Requests from a file ('-' for standard input) instead of generated ones",
                .dash_is_input = true},
               &workload_path_);
  options.Real({.names = "--rate", .value = "R", .help = "Requests a second (default: 1)"},
               {.min = 1e-6, .max = 1e6}, &rate_);
  options.Real(
      {.names = "--duration", .value = "S", .help = "Seconds in which they arrive (default: 3600)"},
      {.min = 1e-3, .max = kMaxSimulatedSeconds}, &duration_);
  options.Integer(
      {.names = "--burst", .value = "N", .help = "So many arrive at the same moment (default: 1)"},
      {.min = 1, .max = kMaxSimulatedCount}, &burst_);
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
                  {.min = 1, .max = kMaxSimulatedContext}, &shared_prefix_);
  options.Real({.names = "--prefix-share",
                .value = "P",
                .help = "Part of the requests that have such a prefix (default: 1)"},
               {.min = 0, .max = 1}, &prefix_share_);
  options.Integer({.names = "--prefixes", .value = "N", .help = "Different prefixes (default: 1)"},
                  {.min = 1, .max = kMaxSimulatedCount}, &prefixes_);
  options.Integer({.names = "--turns",
                   .value = "N",
                   .help = "Turns of a chat; each brings a prompt and what was said before "
                           "(default: 1)"},
                  {.min = 1, .max = 1000}, &turns_);
  options.Real({.names = "--think",
                .value = "S",
                .help = "Seconds between an answer and the next turn (default: 5)"},
               {.min = 0, .max = kMaxSimulatedSeconds}, &think_);
  options.Real({.names = "--priority-share",
                .value = "P",
                .help = "Part of the requests that have a higher priority (default: 0)"},
               {.min = 0, .max = 1}, &priority_share_);
  options.Integer({.names = "--seed", .value = "N", .help = "Of all that is drawn (default: 0)"},
                  {.min = 0, .max = INT64_MAX}, &seed_);
}

Result<> SimulateLoadOptions::Check() const {
  if (const std::string_view option = GeneratorOption(); workload_path_ && !option.empty()) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("--workload has its own arrivals, and {} is of generated ones; leave "
                            "one of them out",
                            option));
  }
  if (!shared_prefix_ && (prefix_share_ || prefixes_)) {
    return Fail(ErrorCode::kInvalid, "--prefix-share and --prefixes go with --shared-prefix only");
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
  return {};
}

Result<Workload> SimulateLoadOptions::Load(Console& console) const {
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

std::string_view SimulateLoadOptions::GeneratorOption() const {
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
WorkloadOptions SimulateLoadOptions::Generator() const {
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
  options.seed = seed();
  return options;
}

}  // namespace baton
