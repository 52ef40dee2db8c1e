// Filters on text: case, white space, cutting, escaping, formatting.
#include <algorithm>
#include <array>
#include <utility>

#include "text/template_arguments.h"
#include "text/template_failure.h"
#include "text/template_filters.h"
#include "text/template_format.h"
#include "text/template_methods.h"
#include "text/template_operators.h"
#include "text/template_string_methods.h"
#include "text/template_table.h"
#include "text/template_unicode.h"

namespace baton::templates {
namespace {

Value CallOn(Evaluation& evaluation, const Value& input, std::string method,
             const Arguments& arguments) {
  const Value text = SoftString(evaluation, input);
  return CallStringMethod(evaluation, BoundMethod{text, std::move(method)}, arguments);
}

Value Upper(Evaluation& e, const Value& v, const Arguments& a) {
  return CallOn(e, v, "upper", a);
}
Value Lower(Evaluation& e, const Value& v, const Arguments& a) {
  return CallOn(e, v, "lower", a);
}
Value CapitalizeFilter(Evaluation& e, const Value& v, const Arguments& a) {
  return CallOn(e, v, "capitalize", a);
}

Value Trim(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "trim", {"chars"}, 0);
  Arguments passed;
  if (bound.Has(0)) passed.positional.push_back(bound[0]);
  return CallOn(evaluation, input, "strip", passed);
}

Value Center(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "center", {"width"}, 0);
  return CallOn(evaluation, input, "center", Arguments{{Value::Int(bound.Integer64(0, 80))}, {}});
}

Value Title(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "title", {}, 0);
  const Value text = SoftString(evaluation, input);
  evaluation.budget().ChargeBytes(3 * text.string().size());
  std::string out;
  bool at_start = true;
  for (const std::string_view character : Characters(text.string())) {
    const char32_t c = DecodeCharacter(character, 0);
    const bool separates =
        IsSpace(c) || std::u32string_view(U"-({[<").find(c) != std::u32string_view::npos;
    out += separates ? std::string(character) : at_start ? ToUpper(character) : ToLower(character);
    at_start = separates;
  }
  return Value::String(std::move(out));
}

Value Replace(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "replace", {"old", "new", "count"}, 2);
  const std::int64_t count = bound.Has(2) && !bound[2].is_none() ? bound.Integer64(2, -1) : -1;
  if (bound.Has(2) && bound[2].is_none())
    Raise("'NoneType' object cannot be interpreted as an integer");
  const std::string from = evaluation.Text(bound[0]);
  const std::string to = evaluation.Text(bound[1]);
  return Value::String(
      ReplaceText(evaluation, evaluation.Text(input), Replacement{from, to, count}));
}

Value Indent(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "indent", {"width", "first", "blank"}, 0);
  if (input.is_undefined()) Raise(input.undefined_message());
  if (!input.is_string())
    Raise("indent needs a string, not '" + std::string(TypeName(input)) + "'");
  std::string blanks;
  if (bound.Has(0) && bound[0].is_string()) {
    blanks = bound[0].string();
  } else {
    const std::int64_t width = bound.Integer64(0, 4);
    evaluation.budget().ChargeBytes(static_cast<std::size_t>(std::max<std::int64_t>(0, width)));
    blanks.assign(static_cast<std::size_t>(std::max<std::int64_t>(0, width)), ' ');
  }
  const bool blank = bound.Flag(2, false);
  std::string out = bound.Flag(1, false) ? blanks : "";
  bool first = true;
  for (const std::string& line : SplitLines(evaluation.budget(), input.string() + "\n", false)) {
    evaluation.budget().ChargeAppend(out.size(), line.size() + blanks.size() + 1);
    if (!first) out += "\n";
    if (!first && (blank || !line.empty())) out += blanks;
    out += line;
    first = false;
  }
  return Value::StringLike(input, std::move(out));
}

Value Truncate(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "truncate", {"length", "killwords", "end", "leeway"}, 0);
  const std::string end = bound.TextOr(2, "...");
  const std::int64_t length = bound.Integer64(0, 255);
  const std::int64_t leeway = bound.Has(3) && !bound[3].is_none() ? bound.Integer64(3, 5) : 5;
  const auto end_length = static_cast<std::int64_t>(CountCharacters(end));
  if (length < end_length) Raise("expected length >= " + std::to_string(end_length));
  if (leeway < 0) Raise("expected leeway >= 0");
  if (!input.is_string()) {
    if (LengthOf(input) <= static_cast<std::size_t>(length + leeway)) return input;
    Raise("truncate needs a string");
  }
  evaluation.budget().ChargeBytes(input.string().size());
  const std::vector<std::string_view> characters = Characters(input.string());
  const auto size = static_cast<std::int64_t>(characters.size());
  if (size <= length || size - length <= leeway) return input;
  std::string kept;
  for (std::int64_t i = 0; i < length - end_length; ++i)
    kept += characters[static_cast<std::size_t>(i)];
  if (!bound.Flag(1, false)) kept = kept.substr(0, std::min(kept.rfind(' '), kept.size()));
  return Value::StringLike(input, kept + end);
}

Value WordCount(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "wordcount", {}, 0);
  const Value text = SoftString(evaluation, input);
  Integer count = 0;
  bool in_word = false;
  for (std::size_t i = 0; i < text.string().size(); i += CharacterBytes(text.string(), i)) {
    const char32_t c = DecodeCharacter(text.string(), i);
    const bool is_word = c == '_' || IsAlpha(c) || IsNumeric(c);
    if (is_word && !in_word) ++count;
    in_word = is_word;
  }
  return Value::Int(count);
}

Value Escape(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "escape", {}, 0);
  return Value::Markup(HtmlEscape(evaluation, input));
}
Value ForceEscape(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "forceescape", {}, 0);
  return Value::Markup(HtmlEscape(evaluation.Text(input)));
}
Value Safe(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "safe", {}, 0);
  return Value::Markup(evaluation.Text(input));
}

Value StringFilter(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "string", {}, 0);
  return SoftString(evaluation, input);
}

Value Format(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty())
    Raise("can't handle positional and keyword arguments at the same time");
  Value values = Value::Tuple(arguments.positional);
  if (!arguments.named.empty()) {
    Dict named;
    for (const auto& [name, value] : arguments.named) named.Set(name, value);
    values = Value::Of(std::move(named));
  }
  return PercentFormat(evaluation, SoftString(evaluation, input), values);
}

Value UrlEncode(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(arguments, "urlencode", {}, 0);
  const auto quote = [&evaluation](const Value& part, bool keep_slash) {
    std::string out;
    for (const char c : evaluation.Text(part)) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-' || c == '~' ||
                         (keep_slash && c == '/');
      if (plain) {
        out += c;
      } else if (c == ' ' && !keep_slash) {
        out += '+';
      } else {
        const auto byte = static_cast<unsigned char>(c);
        out += {'%', "0123456789ABCDEF"[byte >> 4], "0123456789ABCDEF"[byte & 15U]};
      }
    }
    evaluation.budget().ChargeBytes(out.size());
    return out;
  };
  if (input.is_string() || (!input.is(Kind::kDict) && !input.is(Kind::kSequence)))
    return Value::String(quote(input, true));
  std::vector<Value> pairs;
  if (input.is(Kind::kDict)) {
    for (const auto& [key, value] : input.dict().entries())
      pairs.push_back(Value::Tuple({key, value}));
  } else {
    pairs = evaluation.Items(input);
  }
  std::string out;
  for (const Value& pair : pairs) {
    const std::vector<Value> parts = evaluation.Items(pair);
    if (parts.size() != 2) Raise("urlencode needs pairs");
    if (!out.empty()) out += '&';
    out += quote(parts[0], false) + "=" + quote(parts[1], false);
  }
  return Value::String(std::move(out));
}

constexpr std::array<FilterEntry, 17> kFilters = {{
    {"upper", Upper},
    {"lower", Lower},
    {"capitalize", CapitalizeFilter},
    {"title", Title},
    {"trim", Trim},
    {"center", Center},
    {"replace", Replace},
    {"indent", Indent},
    {"truncate", Truncate},
    {"wordcount", WordCount},
    {"escape", Escape},
    {"e", Escape},
    {"forceescape", ForceEscape},
    {"safe", Safe},
    {"string", StringFilter},
    {"format", Format},
    {"urlencode", UrlEncode},
}};

}  // namespace

Value SoftString(Evaluation& evaluation, const Value& value) {
  return value.is_string() ? value : Value::String(evaluation.Text(value));
}

const FilterEntry* FindTextFilter(std::string_view name) {
  return FindByName(kFilters, name);
}

}  // namespace baton::templates
