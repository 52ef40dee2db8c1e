// The printed forms of values: Python's str() and repr(), and JSON.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "text/template_value.h"

namespace baton::templates {

std::string IntegerText(Integer value);
// The shortest decimal that reads back to the same binary64, in Python's notation.
std::string FloatText(double value);
// str(value).
std::string Str(const Value& value);
// repr(value).
std::string Repr(const Value& value);

struct JsonStyle {
  bool ascii_only = false;
  bool sort_keys = false;
  std::optional<std::string> indent = std::nullopt;  // nothing: on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  std::size_t max_bytes = std::size_t{1} << 28;
};
// json.dumps(value). Errors: raises for values and keys that JSON has no form for.
std::string JsonText(const Value& value, const JsonStyle& style);

}  // namespace baton::templates
