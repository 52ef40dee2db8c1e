// From JSON to template values. The text forms need no JSON header in the caller.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "base/result.h"
#include "text/template_value.h"

namespace baton {

// Errors: kInvalid for strings that are not UTF-8 and for nesting beyond templates::kMaxValueDepth.
Result<templates::Value> TemplateValueFromJson(const nlohmann::ordered_json& json);

// Parses a JSON text, keys in their order.
// Errors: kInvalid, with line and column (of characters) for text that is not JSON.
Result<templates::Value> TemplateValueFromJsonText(std::string_view text);

}  // namespace baton
