// /tokenize and /detokenize.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "serve/api_error.h"
#include "serve/text_model.h"

namespace baton {

// Texts above this are refused. Units: bytes.
inline constexpr int64_t kMaxTokenizeBytes = 2 << 20;

// {"content": TEXT, "add_special": false, "parse_special": true, "with_pieces": false} to
// {"tokens": [ID...]}, or [{"id", "piece"}...], where a piece that is no UTF-8 is a list of bytes.
// Errors: 400 with the field's name.
ApiResult<std::string> TokenizeReply(const nlohmann::ordered_json& body, const TextModel& model);

// {"tokens": [ID...]} to {"content": TEXT}. Bytes that are no UTF-8 become U+FFFD.
// Errors: 400 with the field's name.
ApiResult<std::string> DetokenizeReply(const nlohmann::ordered_json& body, const TextModel& model);

}  // namespace baton
