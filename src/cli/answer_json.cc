#include "cli/answer_json.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "cli/figures.h"
#include "tensor/kv_record.h"
#include "text/json_text.h"
#include "text/unicode.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

Json TopJson(const std::vector<TokenLogprob>& top, const Tokenizer& tokenizer) {
  Json list = Json::array();
  for (const TokenLogprob& entry : top) {
    list.push_back({{"id", entry.id},
                    {"text", std::string(tokenizer.Piece(entry.id))},
                    {"logprob", entry.logprob}});
  }
  return list;
}

Json TokenJson(const SampledToken& token, const Tokenizer& tokenizer) {
  const std::string_view piece = tokenizer.Piece(token.id);
  Json bytes = Json::array();
  for (const char byte : piece) bytes.push_back(static_cast<unsigned char>(byte));
  Json json = {{"id", token.id},
               {"text", IsValidUtf8(piece) ? Json(std::string(piece)) : Json()},
               {"bytes", std::move(bytes)}};
  if (token.has_logprobs) {
    json["logprob"] = token.raw_logprob;
    json["top"] = TopJson(token.raw_top, tokenizer);
    json["sampling_logprob"] = token.final_logprob;
    json["sampling_top"] = TopJson(token.final_top, tokenizer);
  }
  return json;
}

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value.has_value() ? Json(*value) : Json();
}

Json SamplingJson(const GenerationRequest& request) {
  const SamplingParams& sampling = request.sampling;
  Json biases = Json::object();
  for (const LogitBias& bias : sampling.logit_bias) biases[std::to_string(bias.token)] = bias.bias;
  return {{"temperature", sampling.temperature},
          {"top_k", sampling.top_k},
          {"top_p", sampling.top_p},
          {"min_p", sampling.min_p},
          {"repeat_penalty", sampling.repetition_penalty},
          {"repeat_last_n", OrNull(sampling.penalty_window)},
          {"frequency_penalty", sampling.frequency_penalty},
          {"presence_penalty", sampling.presence_penalty},
          {"logit_bias", std::move(biases)},
          {"seed", sampling.seed},
          {"max_tokens", OrNull(request.max_tokens)},
          {"stop", request.stop_strings},
          {"ignore_eos", request.ignore_end_tokens}};
}

// The tune file that the policy is from; null for none.
Json TuneFileJson(const LoadedModel& model) {
  const bool is_used = model.options.tuned_prefill != TunedPrefill::kNone && model.tuning;
  return is_used ? Json(model.tuning->path) : Json();
}

}  // namespace

std::string AnswerJson(const GenerationRequest& request, const GenerationResult& result,
                       const PromptReading& reading, const LoadedModel& model) {
  Json tokens = Json::array();
  for (const SampledToken& token : result.tokens) {
    tokens.push_back(TokenJson(token, *model.tokenizer));
  }
  const ModelSpec& spec = model.model->spec();
  const bool exact = model.options.precision == Precision::kExact;
  const bool stopped_by = !result.stopped_by.empty();
  const Json json = {
      {"text", ReplaceInvalidUtf8(result.text)},
      {"stop_reason", StopReasonName(result.stop_reason)},
      {"stopped_by", stopped_by ? Json(result.stopped_by) : Json()},
      {"prompt_ids", request.prompt},
      {"tokens", std::move(tokens)},
      {"figures", FiguresJson(result.figures, reading)},
      {"model",
       {{"file", model.path},
        {"architecture", spec.architecture},
        {"name", spec.name},
        {"context_tokens", model.context_tokens}}},
      {"policy",
       {{"precision", exact ? "exact" : "fast"},
        {"kv_type", KvTypeName(model.options.kv_type)},
        {"prefill", result.figures.prefill_policy.value_or("dense")},
        {"tune_file", TuneFileJson(model)},
        {"sampling", SamplingJson(request)}}},
      {"computed_with",
       {{"isa", IsaName(model.options.isa)}, {"threads", model.options.num_threads}}},
      {"versions", {{"baton", BATON_VERSION}, {"kv_record", kKvRecordVersion}}},
  };
  return JsonText(json);
}

}  // namespace baton
