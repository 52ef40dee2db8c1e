#include "text/json_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

std::string OnOneLine(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
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
    if (json.is_object()) text.append(OnOneLine(key)).append(": ");
    Append(value, inner, text);
    separator = ",\n";
  }
  text.append("\n").append(indent, ' ');
}

void Append(const Json& json, size_t indent, std::string& text) {
  if (!json.is_structured() || json.empty()) {
    text += OnOneLine(json);
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
      text.append(separator).append(OnOneLine(number));
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

}  // namespace baton
