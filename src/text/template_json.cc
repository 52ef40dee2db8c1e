// Both ways in, from a parsed document and from text, with errors that name line and column.
#include "text/template_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "text/template_failure.h"
#include "text/template_unicode.h"
#include "text/unicode.h"

namespace baton {
namespace {

using nlohmann::ordered_json;
using templates::Value;

std::string CheckedText(const std::string& text) {
  if (!IsValidUtf8(text)) templates::Raise("a string in the JSON is not UTF-8");
  return text;
}

Value FromJson(const ordered_json& json, int depth) {
  if (depth > templates::kMaxValueDepth) templates::Raise("the JSON nests too deeply");
  switch (json.type()) {
    case ordered_json::value_t::boolean:
      return Value::Bool(json.get<bool>());
    case ordered_json::value_t::number_integer:
      return Value::Int(json.get<std::int64_t>());
    case ordered_json::value_t::number_unsigned:
      return Value::Int(json.get<std::uint64_t>());
    case ordered_json::value_t::number_float:
      return Value::Float(json.get<double>());
    case ordered_json::value_t::string:
      return Value::String(CheckedText(json.get_ref<const std::string&>()));
    case ordered_json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const ordered_json& item : json) items.push_back(FromJson(item, depth + 1));
      return Value::List(std::move(items));
    }
    case ordered_json::value_t::object: {
      templates::Dict dict;
      for (const auto& [key, value] : json.items())
        dict.Set(CheckedText(key), FromJson(value, depth + 1));
      return Value::Of(std::move(dict));
    }
    default:
      return Value::None();
  }
}

// What stands at the place of an error, and where: the parser counts bytes from one, and the one
// behind the last is the end.
std::string ParseErrorText(std::string_view text, std::size_t byte) {
  const std::size_t at = std::min(byte == 0 ? 0 : byte - 1, text.size());
  const std::string_view before = text.substr(0, at);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t newline = before.rfind('\n');
  const std::string_view in_line =
      newline == std::string_view::npos ? before : before.substr(newline + 1);
  const auto column =
      std::count_if(in_line.begin(), in_line.end(),
                    [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80; }) +
      1;
  return "not valid JSON: " +
         std::string(at == text.size() ? "it ends too early, at" : "it goes wrong at") + " line " +
         std::to_string(line) + ", column " + std::to_string(column);
}

}  // namespace

Result<templates::Value> TemplateValueFromJson(const ordered_json& json) {
  try {
    return FromJson(json, 1);
  } catch (const templates::TemplateFailure& failure) {
    return Fail(ErrorCode::kInvalid, failure.message);
  }
}

Result<templates::Value> TemplateValueFromJsonText(std::string_view text) {
  try {
    return FromJson(ordered_json::parse(text), 1);
  } catch (const nlohmann::json::parse_error& error) {
    return Fail(ErrorCode::kInvalid, ParseErrorText(text, error.byte));
  } catch (const nlohmann::json::exception&) {
    // Beyond its grammar, the parser refuses only numbers that no double holds.
    return Fail(ErrorCode::kInvalid, "not valid JSON: a number is too large");
  } catch (const templates::TemplateFailure& failure) {
    return Fail(ErrorCode::kInvalid, failure.message);
  }
}

}  // namespace baton
