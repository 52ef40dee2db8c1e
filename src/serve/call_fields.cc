#include "serve/call_fields.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/rng.h"
#include "serve/json_body.h"
#include "serve/unsupported_fields.h"
#include "text/unicode.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kSmallestPenalty = 1e-3;

// A number with its place in the parameters.
struct RealField {
  const char* name;
  RealLimits limits;
  double SamplingParams::*place;
};

constexpr RealField kRealFields[] = {
    {"temperature", {0, SamplingParams::kMaxTemperature}, &SamplingParams::temperature},
    {"top_p", {0, 1}, &SamplingParams::top_p},
    {"min_p", {0, 1}, &SamplingParams::min_p},
    {"repetition_penalty",
     {kSmallestPenalty, SamplingParams::kMaxRepetitionPenalty},
     &SamplingParams::repetition_penalty},
    {"frequency_penalty",
     {-SamplingParams::kMaxAdditivePenalty, SamplingParams::kMaxAdditivePenalty},
     &SamplingParams::frequency_penalty},
    {"presence_penalty",
     {-SamplingParams::kMaxAdditivePenalty, SamplingParams::kMaxAdditivePenalty},
     &SamplingParams::presence_penalty},
};

// Bool with a default, into a place. Errors: as JsonFields::Bool.
ApiResult<> TakeBool(const JsonFields& fields, std::string_view name, bool& place) {
  const auto value = fields.Bool(name);
  if (!value) return ForwardApi(value);
  place = value->value_or(place);
  return {};
}

ApiResult<> ReadNumbers(const JsonFields& fields, CallFields& call) {
  for (const RealField& field : kRealFields) {
    const auto value = fields.Real(field.name, field.limits);
    if (!value) return ForwardApi(value);
    call.sampling.*field.place = value->value_or(call.sampling.*field.place);
  }
  // -1 is how others say: off.
  const auto top_k = fields.Integer("top_k", {-1, std::numeric_limits<int32_t>::max()});
  if (!top_k) return ForwardApi(top_k);
  call.sampling.top_k = std::max<int64_t>(top_k->value_or(0), 0);
  const auto seed = fields.Bits64("seed");
  if (!seed) return ForwardApi(seed);
  call.seed = *seed;
  return {};
}

ApiResult<> ReadLengths(const JsonFields& fields, CallFields& call) {
  const auto tokens = fields.Integer("max_tokens", {0, CallLimits::kMaxTokens});
  if (!tokens) return ForwardApi(tokens);
  const auto completion = fields.Integer("max_completion_tokens", {0, CallLimits::kMaxTokens});
  if (!completion) return ForwardApi(completion);
  if (*tokens && *completion && **tokens != **completion) {
    return BadField("max_tokens", "'max_tokens' and 'max_completion_tokens' differ; give one");
  }
  call.max_tokens = *completion ? *completion : *tokens;
  const auto choices = fields.Integer("n", {1, CallLimits::kMaxChoices});
  if (!choices) return ForwardApi(choices);
  call.num_choices = choices->value_or(1);
  const auto best_of = fields.Integer("best_of", {1, CallLimits::kMaxChoices});
  if (!best_of) return ForwardApi(best_of);
  if (best_of->value_or(call.num_choices) != call.num_choices) {
    return BadField("best_of", "'best_of' other than 'n' is not supported");
  }
  return {};
}

ApiResult<> ReadStops(const JsonFields& fields, CallFields& call) {
  const Json* stop = fields.Find("stop");
  if (stop == nullptr) return {};
  if (!stop->is_string() && !stop->is_array()) {
    return BadField("stop", fmt::format("'stop' must be a string or a list of strings, not {}",
                                        JsonTypeName(*stop)));
  }
  const Json one = stop->is_string() ? Json::array({*stop}) : Json();
  const Json& list = stop->is_string() ? one : *stop;
  if (std::ssize(list) > CallLimits::kMaxStops) {
    return BadField("stop", fmt::format("'stop' has {} strings; the limit is {}", list.size(),
                                        CallLimits::kMaxStops));
  }
  int64_t num_bytes = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_string() || list[i].get_ref<const std::string&>().empty()) {
      return BadField("stop",
                      fmt::format("'stop' must hold strings that are not empty; number {} "
                                  "is {}",
                                  i, list[i].is_string() ? "an empty one" : JsonTypeName(list[i])));
    }
    call.stops.push_back(list[i].get<std::string>());
    num_bytes += std::ssize(call.stops.back());
  }
  if (num_bytes > CallLimits::kMaxStopBytes) {
    return BadField("stop", fmt::format("the strings of 'stop' have {} bytes; the limit is {}",
                                        num_bytes, CallLimits::kMaxStopBytes));
  }
  return {};
}

// A token id as it is printed: no sign, no zero in front.
std::optional<int64_t> ParseId(const std::string& text) {
  if (text.empty() || text.size() > 10 || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  int64_t id = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    id = id * 10 + (c - '0');
  }
  return id;
}

// A list of [id, bias], the id as text (from an object) or as a number.
ApiResult<> ReadBiases(const JsonFields& fields, const CallLimits& limits, CallFields& call) {
  const Json* biases = fields.Find("logit_bias");
  if (biases == nullptr) return {};
  if (!biases->is_array()) {
    return BadField("logit_bias",
                    fmt::format("'logit_bias' must be an object, not {}", JsonTypeName(*biases)));
  }
  std::set<TokenId> seen;
  for (const Json& pair : *biases) {
    if (!pair.is_array() || pair.size() != 2) {
      return BadField("logit_bias", "'logit_bias' must hold pairs of a token id and a number");
    }
    const std::string key = pair[0].is_string() ? pair[0].get<std::string>() : pair[0].dump();
    const std::optional<int64_t> id = ParseId(key);
    if (!id || *id >= limits.vocab_size) {
      return BadField("logit_bias",
                      fmt::format("'logit_bias' names the token '{}'; the vocabulary has the ids "
                                  "0 to {}",
                                  ReplaceInvalidUtf8(std::string_view(key).substr(0, 20)),
                                  limits.vocab_size - 1));
    }
    const double bias = pair[1].is_number() ? pair[1].get<double>() : 1e9;
    if (!(bias >= -SamplingParams::kMaxBias && bias <= SamplingParams::kMaxBias)) {
      return BadField("logit_bias",
                      fmt::format("'logit_bias' of token {} must be a number from {} to {}", *id,
                                  -SamplingParams::kMaxBias, SamplingParams::kMaxBias));
    }
    if (!seen.insert(static_cast<TokenId>(*id)).second) {
      return BadField("logit_bias", fmt::format("'logit_bias' names the token {} twice", *id));
    }
    call.sampling.logit_bias.push_back({.token = static_cast<TokenId>(*id), .bias = bias});
  }
  return {};
}

ApiResult<> ReadStreaming(const JsonFields& fields, CallFields& call) {
  if (auto taken = TakeBool(fields, "stream", call.stream); !taken) return taken;
  if (auto taken = TakeBool(fields, "return_progress", call.return_progress); !taken) return taken;
  if (auto taken = TakeBool(fields, "ignore_eos", call.ignore_eos); !taken) return taken;
  const auto options = fields.Object("stream_options");
  if (!options) return ForwardApi(options);
  if (*options == nullptr) return {};
  if (!call.stream) {
    return BadField("stream_options", "'stream_options' goes with 'stream': true only");
  }
  return TakeBool(JsonFields(**options, "stream_options"), "include_usage", call.include_usage);
}

// How the prompt is read: 'prefill', and 'sparse' with the words of a policy.
ApiResult<> ReadPrefill(const JsonFields& fields, CallFields& call) {
  const auto mode = fields.Text("prefill");
  if (!mode) return ForwardApi(mode);
  if (*mode) {
    const Result<PrefillMode> parsed = ParsePrefillMode(**mode);
    if (!parsed) return BadField("prefill", "'prefill': " + parsed.error().message);
    call.prefill.mode = *parsed;
  }
  const auto words = fields.Text("sparse");
  if (!words) return ForwardApi(words);
  if (!*words) return {};
  if (call.prefill.mode != PrefillMode::kSparse) {
    return BadField("sparse",
                    "'sparse' says what a sparse prefill keeps; it goes with \"prefill\": "
                    "\"sparse\" only");
  }
  Result<SparsePolicy> policy = ParseSparseWords(**words);
  if (!policy) return BadField("sparse", "'sparse': " + policy.error().message);
  call.prefill.policy = *std::move(policy);
  return {};
}

// What is asked for and cannot be had. Silence would be taken for a yes.
ApiResult<> RefuseUnsupported(const JsonFields& fields) {
  const Json* functions = fields.Find("functions");
  if (functions != nullptr && *functions != Json::array()) {
    return BadField("functions", "'functions' is not supported; 'tools' says the same");
  }
  if (auto refused = RefuseFields(fields); !refused) return refused;
  const auto format = fields.Object("response_format");
  if (!format) return ForwardApi(format);
  if (*format == nullptr) return {};
  const auto type = JsonFields(**format, "response_format").Text("type");
  if (!type) return ForwardApi(type);
  if (type->value_or("text") != "text") {
    return BadField("response_format", "the only 'response_format' is {\"type\": \"text\"}");
  }
  return {};
}

}  // namespace

ApiResult<CallFields> ReadCallFields(const Json& body, const CallLimits& limits) {
  const JsonFields fields(body);
  CallFields call;
  auto model = fields.Text("model");
  if (!model) return ForwardApi(model);
  call.model = *std::move(model);
  if (auto read = RefuseUnsupported(fields); !read) return ForwardApi(read);
  if (auto read = ReadNumbers(fields, call); !read) return ForwardApi(read);
  if (auto read = ReadLengths(fields, call); !read) return ForwardApi(read);
  if (auto read = ReadStops(fields, call); !read) return ForwardApi(read);
  if (auto read = ReadBiases(fields, limits, call); !read) return ForwardApi(read);
  if (auto read = ReadStreaming(fields, call); !read) return ForwardApi(read);
  if (auto read = ReadPrefill(fields, call); !read) return ForwardApi(read);
  return call;
}

uint64_t SeedOfChoice(uint64_t seed, int64_t choice) {
  if (choice == 0) return seed;
  RandomStream stream({.seed = seed, .stream = static_cast<uint64_t>(choice)});
  return stream.NextU64();
}

}  // namespace baton
