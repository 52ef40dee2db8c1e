#include "text/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

// Shorter in one of a thousand cases than what nlohmann writes.
void AppendReal(double value, std::string& text) {
  if (!std::isfinite(value)) {
    text += "null";
    return;
  }
  const size_t begin = text.size();
  fmt::format_to(std::back_inserter(text), "{}", value);
  // A whole one stays a real number to whoever reads it.
  if (text.find_first_of(".e", begin) == std::string::npos) text += ".0";
}

void AppendLine(const Json& json, std::string& text) {
  std::string_view separator;
  if (json.is_number_float()) {
    AppendReal(json.get<double>(), text);
  } else if (json.is_number_unsigned()) {
    fmt::format_to(std::back_inserter(text), "{}", json.get<uint64_t>());
  } else if (json.is_number()) {
    fmt::format_to(std::back_inserter(text), "{}", json.get<int64_t>());
  } else if (json.is_object()) {
    text += '{';
    for (const auto& [key, value] : json.items()) {
      text += separator;
      AppendLine(key, text);
      text += ':';
      AppendLine(value, text);
      separator = ",";
    }
    text += '}';
  } else if (json.is_array()) {
    text += '[';
    for (const Json& value : json) {
      text += separator;
      AppendLine(value, text);
      separator = ",";
    }
    text += ']';
  } else {
    text += json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

bool IsNumbersOnly(const Json& list) {
  return std::all_of(list.begin(), list.end(), [](const Json& entry) { return entry.is_number(); });
}

void Append(const Json& json, size_t indent, std::string& text);

// The entries of a list or an object between its brackets, one or more lines each.
void AppendEntries(const Json& json, size_t indent, std::string& text) {
  const size_t inner = indent + 2;
  std::string_view separator = "\n";
  for (const auto& [key, value] : json.items()) {
    text.append(separator).append(inner, ' ');
    if (json.is_object()) text.append(JsonLine(key)).append(": ");
    Append(value, inner, text);
    separator = ",\n";
  }
  text.append("\n").append(indent, ' ');
}

void Append(const Json& json, size_t indent, std::string& text) {
  if (!json.is_structured() || json.empty()) {
    AppendLine(json, text);
  } else if (json.is_object()) {
    text += '{';
    AppendEntries(json, indent, text);
    text += '}';
  } else if (!IsNumbersOnly(json)) {
    text += '[';
    AppendEntries(json, indent, text);
    text += ']';
  } else {
    std::string_view separator = "[";
    for (const Json& number : json) {
      text += separator;
      AppendLine(number, text);
      separator = ", ";
    }
    text += ']';
  }
}

}  // namespace

std::string JsonText(const Json& json) {
  std::string text;
  Append(json, 0, text);
  return text + "\n";
}

std::string JsonLine(const Json& json) {
  std::string text;
  AppendLine(json, text);
  return text;
}

}  // namespace baton
