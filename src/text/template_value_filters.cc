// Filters on numbers, on single values, and to and from JSON.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

#include "text/template_arguments.h"
#include "text/template_failure.h"
#include "text/template_filters.h"
#include "text/template_json.h"
#include "text/template_operators.h"
#include "text/template_print.h"
#include "text/template_table.h"
#include "text/template_unicode.h"

namespace baton::templates {
namespace {

Value Default(Evaluation&, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "default", {"default_value", "boolean"}, 0);
  if (input.is_undefined() || (bound.Flag(1, false) && !Truth(input)))
    return bound.Has(0) ? bound[0] : Value::String("");
  return input;
}

Value ToJson(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "tojson",
                             {"ensure_ascii", "indent", "separators", "sort_keys"}, 0);
  JsonStyle style{.ascii_only = bound.Flag(0, false), .sort_keys = bound.Flag(3, false)};
  if (bound.Has(1) && !bound[1].is_none()) {
    constexpr std::int64_t kMaxIndent = 100;
    if (bound[1].is_string()) {
      style.indent = bound[1].string();
    } else {
      style.indent = std::string(
          static_cast<std::size_t>(std::clamp<std::int64_t>(bound.Integer64(1, 0), 0, kMaxIndent)),
          ' ');
    }
    if (style.indent->size() > kMaxIndent) Raise("tojson: the indent is too wide");
    style.item_separator = ",";
  }
  if (bound.Has(2) && !bound[2].is_none()) {
    const std::vector<Value> separators = evaluation.Items(bound[2]);
    if (separators.size() != 2 || !separators[0].is_string() || !separators[1].is_string())
      Raise("tojson: separators are two strings");
    style.item_separator = separators[0].string();
    style.key_separator = separators[1].string();
  }
  style.max_bytes = evaluation.budget().limits().max_value_bytes;
  evaluation.budget().ChargeBytes(input.weight());
  std::string text = JsonText(input, style);
  evaluation.budget().ChargeBytes(text.size());
  return Value::String(std::move(text));
}

Value FromJson(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "from_json", {}, 0);
  if (!input.is_string()) Raise("from_json needs a string");
  evaluation.budget().ChargeBytes(input.string().size());
  Result<Value> value = TemplateValueFromJsonText(input.string());
  if (!value.has_value()) Raise("from_json: " + value.error().message);
  return std::move(*value);
}

// What int(text, base) accepts, or nothing.
std::optional<Integer> ParseInteger(std::string_view text, int base) {
  text = StripSpace(text, StripSides::kBoth);
  bool negative = false;
  if (text.starts_with('-') || text.starts_with('+')) {
    negative = text.front() == '-';
    text.remove_prefix(1);
  }
  const auto has_prefix = [&](char mark) {
    return text.size() > 2 && text[0] == '0' && (text[1] | 0x20) == mark;
  };
  if ((base == 16 && has_prefix('x')) || (base == 8 && has_prefix('o')) ||
      (base == 2 && has_prefix('b')))
    text.remove_prefix(text[2] == '_' ? 3 : 2);
  Integer value = 0;
  bool previous_digit = false;
  for (const char c : text) {
    if (c == '_' && previous_digit) {
      previous_digit = false;
      continue;
    }
    const int lower = c | 0x20;
    const int digit = c >= '0' && c <= '9'           ? c - '0'
                      : lower >= 'a' && lower <= 'z' ? lower - 'a' + 10
                                                     : 99;
    if (digit >= base || value > (static_cast<Integer>(1) << 110)) return std::nullopt;
    value = value * base + digit;
    previous_digit = true;
  }
  if (!previous_digit) return std::nullopt;
  return negative ? -value : value;
}

// What float(text) accepts, or nothing.
std::optional<double> ParseFloat(std::string_view text) {
  text = StripSpace(text, StripSides::kBoth);
  const std::string lower = ToLower(text);
  if (lower.find('x') != std::string::npos || lower.find('p') != std::string::npos)
    return std::nullopt;
  std::string digits;
  for (std::size_t i = 0; i < lower.size(); ++i) {
    const auto is_digit = [&](std::size_t at) {
      return at < lower.size() && lower[at] >= '0' && lower[at] <= '9';
    };
    if (lower[i] == '_' && i > 0 && is_digit(i - 1) && is_digit(i + 1)) continue;
    digits += lower[i];
  }
  if (digits.starts_with('+')) {
    digits.erase(0, 1);
    if (digits.starts_with('-')) return std::nullopt;
  }
  if (digits.find('(') != std::string::npos) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (end != digits.data() + digits.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    const bool tiny = digits.find("e-") != std::string::npos;
    const double magnitude = tiny ? 0.0 : HUGE_VAL;
    return digits.starts_with('-') ? -magnitude : magnitude;
  }
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::optional<Integer> TruncatedToInteger(double value) {
  if (!(std::fabs(value) < 1e33)) return std::nullopt;
  return static_cast<Integer>(value);
}

Value Int(Evaluation&, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "int", {"default", "base"}, 0);
  const Value fallback = bound.Has(0) ? bound[0] : Value::Int(0);
  if (input.is_undefined()) Raise(input.undefined_message());
  std::optional<Integer> value;
  if (input.is_integral()) value = input.integer();
  if (input.is(Kind::kFloat)) {
    if (std::isinf(input.floating())) return fallback;
    value = TruncatedToInteger(input.floating());
  }
  if (input.is_string()) {
    const std::int64_t base = bound.Integer64(1, 10);
    if (base < 2 || base > 36) Raise("int: the base must be between 2 and 36");
    value = ParseInteger(input.string(), static_cast<int>(base));
    if (!value.has_value()) {
      const std::optional<double> number = ParseFloat(input.string());
      if (number.has_value()) value = TruncatedToInteger(*number);
    }
  }
  return value.has_value() ? Value::Int(*value) : fallback;
}

Value Float(Evaluation&, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "float", {"default"}, 0);
  if (input.is_undefined()) Raise(input.undefined_message());
  if (input.is_number()) return Value::Float(input.number());
  if (input.is_string()) {
    const std::optional<double> value = ParseFloat(input.string());
    if (value.has_value()) return Value::Float(*value);
  }
  return bound.Has(0) ? bound[0] : Value::Float(0);
}

Value Abs(Evaluation&, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "abs", {}, 0);
  if (input.is_undefined()) Raise(input.undefined_message());
  if (input.is_integral())
    return Value::Int(input.integer() < 0 ? -input.integer() : input.integer());
  if (input.is(Kind::kFloat)) return Value::Float(std::fabs(input.floating()));
  Raise("bad operand type for abs(): '" + std::string(TypeName(input)) + "'");
}

// round(value, digits) of a float: the decimal nearest to the exact binary value, ties to even.
double RoundFloat(double value, std::int64_t digits) {
  if (!std::isfinite(value) || digits > 300) return value;
  if (digits < -300) return std::copysign(0.0, value);
  if (digits <= 0) {
    const double power = std::pow(10.0, static_cast<double>(-digits));
    return digits == 0 ? std::nearbyint(value) : std::nearbyint(value / power) * power;
  }
  std::array<char, 700> buffer;
  const int length =
      std::snprintf(buffer.data(), buffer.size(), "%.*f", static_cast<int>(digits), value);
  double rounded = value;
  std::from_chars(buffer.data(), buffer.data() + length, rounded);
  return rounded;
}

Value Round(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "round", {"precision", "method"}, 0);
  const std::string method = bound.TextOr(1, "common");
  const std::int64_t digits = bound.Integer64(0, 0);
  if (input.is_undefined()) Raise(input.undefined_message());
  if (method != "common" && method != "ceil" && method != "floor")
    Raise("method must be common, ceil or floor");
  if (!input.is_number())
    Raise("type " + std::string(TypeName(input)) + " doesn't define __round__ method");
  if (method == "common") {
    if (!input.is_integral()) return Value::Float(RoundFloat(input.floating(), digits));
    if (digits >= 0) return Value::Int(input.integer());
    if (digits < -30) return Value::Int(0);
    Integer power = 1;
    for (std::int64_t i = digits; i < 0; ++i) power *= 10;
    const Integer rest = ((input.integer() % power) + power) % power;
    const Integer base = input.integer() - rest;
    const bool up = rest * 2 > power || (rest * 2 == power && (base / power) % 2 != 0);
    return Value::Int(up ? base + power : base);
  }
  const Value power = Binary(evaluation, '^', Value::Int(10), Value::Int(digits));
  const double scaled = Binary(evaluation, '*', input, power).number();
  const std::optional<Integer> whole =
      TruncatedToInteger(method == "ceil" ? std::ceil(scaled) : std::floor(scaled));
  if (!whole.has_value()) Raise("cannot round this number");
  return Binary(evaluation, '/', Value::Int(*whole), power);
}

Value FileSize(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "filesizeformat", {"binary"}, 0);
  const Value number = Float(evaluation, input, Arguments{{Value::None()}, {}});
  if (!number.is(Kind::kFloat)) Raise("filesizeformat needs a number");
  const double bytes = number.floating();
  const bool binary = bound.Flag(0, false);
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) return Value::String("1 Byte");
  if (bytes < base)
    return Value::String(
        FloatText(std::trunc(bytes)).substr(0, FloatText(std::trunc(bytes)).find('.')) + " Bytes");
  constexpr std::array<std::string_view, 8> kDecimal = {"kB", "MB", "GB", "TB",
                                                        "PB", "EB", "ZB", "YB"};
  constexpr std::array<std::string_view, 8> kBinary = {"KiB", "MiB", "GiB", "TiB",
                                                       "PiB", "EiB", "ZiB", "YiB"};
  double unit = base;
  std::size_t index = 0;
  for (; index < kDecimal.size(); ++index) {
    unit *= base;
    if (bytes < unit || index + 1 == kDecimal.size()) break;
  }
  std::array<char, 400> buffer;
  std::snprintf(buffer.data(), buffer.size(), "%.1f ", base * bytes / unit);
  return Value::String(std::string(buffer.data()) +
                       std::string(binary ? kBinary[index] : kDecimal[index]));
}

Value Attr(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "attr", {"name"}, 1);
  // Attributes only: a key of a dict is none.
  const std::string& name = bound.Text(0);
  if (input.is(Kind::kDict) && input.dict().Find(name) != nullptr) {
    const Value bare = evaluation.Attribute(Value::Of(Dict()), name);
    if (!bare.is(Kind::kMethod)) return bare;
  }
  return evaluation.Attribute(input, name);
}

constexpr std::array<FilterEntry, 10> kFilters = {{
    {"default", Default},
    {"d", Default},
    {"tojson", ToJson},
    {"from_json", FromJson},
    {"int", Int},
    {"float", Float},
    {"abs", Abs},
    {"round", Round},
    {"filesizeformat", FileSize},
    {"attr", Attr},
}};

}  // namespace

const FilterEntry* FindValueFilter(std::string_view name) {
  return FindByName(kFilters, name);
}

const FilterEntry* FindFilter(std::string_view name) {
  if (const FilterEntry* entry = FindTextFilter(name); entry != nullptr) return entry;
  if (const FilterEntry* entry = FindValueFilter(name); entry != nullptr) return entry;
  if (const FilterEntry* entry = FindSequenceFilter(name); entry != nullptr) return entry;
  return FindSelectionFilter(name);
}

}  // namespace baton::templates
