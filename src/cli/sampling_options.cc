#include "cli/sampling_options.h"

#include <fmt/format.h>

#include <limits>

#include "base/whole_number.h"
#include "model/model_spec.h"
#include "sample/sampling_params.h"
#include "sample/stop_matcher.h"
#include "text/unicode.h"

namespace baton {
namespace {

// What users of other programs look for.
void DeclareElsewhere(OptionSet& options) {
  options.Elsewhere("--temperature", "it is called --temp");
  options.Elsewhere("-s", "it is called --seed");
  for (const char* const name : {"--n-predict", "--num-predict"}) {
    options.Elsewhere(name, "the longest answer is --max-tokens");
  }
  for (const char* const name : {"-sys", "--system-prompt"}) {
    options.Elsewhere(name, "it is called --system");
  }
  for (const char* const name : {"-cnv", "-no-cnv", "--conversation", "--no-conversation"}) {
    options.Elsewhere(name, "baton chat talks, baton run answers once; leave it out");
  }
}

}  // namespace

void SamplingOptions::Declare(OptionSet& options) {
  DeclareElsewhere(options);
  options.Group("Choice of tokens");
  DeclareDraws(options);
  DeclareAdjustments(options);
  options.Group("End of the answer");
  DeclareEnd(options);
}

void SamplingOptions::DeclareDraws(OptionSet& options) {
  using Defaults = SamplingDefaults;
  options.Real({.names = "--temp",
                .value = "X",
                .help = fmt::format("Temperature; 0 always takes the most probable token "
                                    "(default: {})",
                                    Defaults::kTemperature)},
               {.min = 0, .max = SamplingParams::kMaxTemperature}, &temperature_);
  options.Integer({.names = "--top-k",
                   .value = "N",
                   .help = fmt::format("Draw from the N most probable tokens; 0: from all "
                                       "(default: {})",
                                       Defaults::kTopK)},
                  {.min = 0, .max = 1'000'000'000}, &top_k_);
  options.Real({.names = "--top-p",
                .value = "X",
                .help = fmt::format("Draw from the fewest tokens that have this share of the "
                                    "probability; 1: from all (default: {})",
                                    Defaults::kTopP)},
               {.min = 0, .max = 1}, &top_p_);
  options.Real({.names = "--min-p",
                .value = "X",
                .help = fmt::format("Draw from tokens at least X times as probable as the best; "
                                    "0: from all (default: {})",
                                    Defaults::kMinP)},
               {.min = 0, .max = 1}, &min_p_);
  options.Integer({.names = "--seed",
                   .value = "N",
                   .help = "Seed of the draws; the same seed gives the same answer (default: 0)"},
                  {.min = 0, .max = std::numeric_limits<int64_t>::max()}, &seed_);
}

void SamplingOptions::DeclareAdjustments(OptionSet& options) {
  options.Real({.names = "--repeat-penalty",
                .value = "X",
                .help = "Divide the logits of tokens seen before by X (default: 1, none)"},
               {.min = 0.01, .max = SamplingParams::kMaxRepetitionPenalty}, &repeat_penalty_);
  options.Real(
      {.names = "--frequency-penalty",
       .value = "X",
       .help = "Lower a logit by X for each time its token was generated (default: 0)"},
      {.min = -SamplingParams::kMaxAdditivePenalty, .max = SamplingParams::kMaxAdditivePenalty},
      &frequency_penalty_);
  options.Real(
      {.names = "--presence-penalty",
       .value = "X",
       .help = "Lower the logits of generated tokens by X once (default: 0)"},
      {.min = -SamplingParams::kMaxAdditivePenalty, .max = SamplingParams::kMaxAdditivePenalty},
      &presence_penalty_);
  options.Integer({.names = "--repeat-last-n",
                   .value = "N",
                   .help = "Tokens that the penalties look back at (default: all)"},
                  {.min = 1, .max = ModelLimits::kMaxContext}, &repeat_last_n_);
  options.ParsedEach({.names = "--logit-bias",
                      .value = "ID=X",
                      .help = "Add X to the logit of a token, from -100, with which it is never "
                              "chosen, to 100; may be repeated"},
                     [this](const std::string& given) { return AddBias(given); });
}

void SamplingOptions::DeclareEnd(OptionSet& options) {
  options.Integer({.names = "-n,--max-tokens",
                   .value = "N",
                   .help = "Tokens to generate at most (default: until the model ends its answer "
                           "or the context is full)"},
                  {.min = 0, .max = ModelLimits::kMaxContext}, &max_tokens_);
  options.ParsedEach({.names = "--stop",
                      .value = "TEXT",
                      .help = "End before this text, which is not printed; may be repeated"},
                     [this](const std::string& given) { return AddStop(given); });
  options.Flag(
      {.names = "--ignore-eos", .value = "", .help = "Go on through the model's end tokens"},
      &ignore_end_);
}

Result<> SamplingOptions::Check() {
  const Result<StopMatcher> matcher = StopMatcher::Make(stops_);
  if (!matcher) return Fail(matcher.error().code, "--stop: " + matcher.error().message);
  return {};
}

Result<> SamplingOptions::CheckVocabulary(int64_t vocab_size) const {
  for (const LogitBias& bias : biases_) {
    if (bias.token < vocab_size) continue;
    return Fail(ErrorCode::kInvalid,
                fmt::format("--logit-bias names the token {}; the model's vocabulary ends at {}",
                            bias.token, vocab_size - 1));
  }
  return {};
}

Result<> SamplingOptions::AddStop(const std::string& text) {
  if (text.empty()) return Fail(ErrorCode::kInvalid, "takes a text, not an empty one");
  if (!IsValidUtf8(text))
    return Fail(ErrorCode::kInvalid, "takes text in UTF-8, which this is not");
  stops_.push_back(text);
  return {};
}

Result<> SamplingOptions::AddBias(const std::string& text) {
  const size_t equals = text.find('=');
  const std::optional<int64_t> id = WholeIn(std::string_view(text).substr(0, equals),
                                            {.min = 0, .max = std::numeric_limits<TokenId>::max()});
  std::optional<double> bias;
  if (equals != std::string::npos) {
    bias = ParseReal(std::string_view(text).substr(equals + 1),
                     {.min = -SamplingParams::kMaxBias, .max = SamplingParams::kMaxBias});
  }
  if (!id.has_value() || !bias.has_value()) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("takes a token id, '=' and a number from {} to {}, not '{}'",
                            -SamplingParams::kMaxBias, SamplingParams::kMaxBias, text));
  }
  const TokenId token = static_cast<TokenId>(*id);
  for (const LogitBias& given : biases_) {
    if (given.token != token) continue;
    return Fail(ErrorCode::kInvalid, fmt::format("names the token {} twice", token));
  }
  biases_.push_back({.token = token, .bias = *bias});
  return {};
}

void SamplingOptions::Apply(GenerationRequest& request) const {
  SamplingParams& sampling = request.sampling;
  sampling.temperature = temperature_.value_or(SamplingDefaults::kTemperature);
  sampling.top_k = top_k_.value_or(SamplingDefaults::kTopK);
  sampling.top_p = top_p_.value_or(SamplingDefaults::kTopP);
  sampling.min_p = min_p_.value_or(SamplingDefaults::kMinP);
  sampling.repetition_penalty = repeat_penalty_.value_or(1.0);
  sampling.frequency_penalty = frequency_penalty_.value_or(0.0);
  sampling.presence_penalty = presence_penalty_.value_or(0.0);
  sampling.penalty_window = repeat_last_n_;
  sampling.logit_bias = biases_;
  sampling.seed = static_cast<uint64_t>(seed_.value_or(SamplingDefaults::kSeed));
  request.max_tokens = max_tokens_;
  request.stop_strings = stops_;
  request.ignore_end_tokens = ignore_end_;
}

}  // namespace baton
