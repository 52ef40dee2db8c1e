#include "serve/unsupported_fields.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr UnsupportedField kFields[] = {
    {.name = "allowed_token_ids"},
    {.name = "audio"},
    {.name = "bad_words"},
    {.name = "chat_template"},
    {.name = "chat_template_kwargs", .off = "{}"},
    {.name = "documents"},
    {.name = "dry_multiplier", .off = "0"},
    {.name = "dynatemp_range", .off = "0"},
    {.name = "early_stopping", .off = "false"},
    {.name = "grammar"},
    {.name = "guided_choice"},
    {.name = "guided_grammar"},
    {.name = "guided_json"},
    {.name = "guided_regex"},
    {.name = "include_stop_str_in_output", .off = "false"},
    {.name = "json_schema"},
    {.name = "length_penalty", .off = "1"},
    {.name = "logits_processors"},
    {.name = "min_tokens", .off = "0"},
    {.name = "mirostat", .off = "0"},
    {.name = "mirostat_mode", .off = "0"},
    {.name = "n_predict", .off = "-1"},
    {.name = "prompt_embeds"},
    {.name = "prompt_logprobs"},
    {.name = "repeat_last_n", .off = "-1"},
    {.name = "repeat_penalty", .off = "1"},
    {.name = "samplers"},
    {.name = "skip_special_tokens", .off = "true"},
    {.name = "stop_token_ids"},
    {.name = "structural_tag"},
    {.name = "structured_outputs"},
    {.name = "suffix"},
    {.name = "tfs_z", .off = "1"},
    {.name = "top_n_sigma", .off = "-1"},
    {.name = "truncate_prompt_tokens"},
    {.name = "typical_p", .off = "1"},
    {.name = "use_beam_search", .off = "false"},
    {.name = "web_search_options"},
    {.name = "xtc_probability", .off = "0"},
};

bool AsksForNothing(const Json& value, const UnsupportedField& field) {
  if (value.is_array() && value.empty()) return true;
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return !field.off.empty() && value == Json::parse(field.off);
}

}  // namespace

std::span<const UnsupportedField> UnsupportedFields() {
  return kFields;
}

ApiResult<> RefuseFields(const JsonFields& fields) {
  for (const UnsupportedField& field : kFields) {
    const Json* value = fields.Find(field.name);
    if (value == nullptr || AsksForNothing(*value, field)) continue;
    return BadField(std::string(field.name), fmt::format("'{}' is not supported", field.name));
  }
  return {};
}

}  // namespace baton
