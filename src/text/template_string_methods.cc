// One function per method or group of kin (strip, lstrip, rstrip), the table of their names, and
// what filters share with them.
#include "text/template_string_methods.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "text/template_arguments.h"
#include "text/template_failure.h"
#include "text/template_format.h"
#include "text/template_methods.h"
#include "text/template_operators.h"
#include "text/template_search.h"
#include "text/template_table.h"
#include "text/template_unicode.h"

namespace baton::templates {
namespace {

constexpr std::int64_t kNoEnd = std::numeric_limits<std::int64_t>::max();

// One call of a method of `self`.
struct Call {
  Evaluation& evaluation;
  const Value& self;
  const std::string& text;
  const std::string& name;
  const Arguments& arguments;

  Value Text(std::string result) const {
    evaluation.budget().ChargeBytes(result.size());
    return Value::StringLike(self, std::move(result));
  }
};

using Handler = Value (*)(const Call&);

Value Strip(const Call& call) {
  const BoundArguments bound(call.arguments, call.name, {"chars"}, 0);
  const StripSides sides = call.name == "strip"    ? StripSides::kBoth
                           : call.name == "lstrip" ? StripSides::kLeft
                                                   : StripSides::kRight;
  if (!bound.Has(0) || bound[0].is_none())
    return call.Text(std::string(StripSpace(call.text, sides)));
  call.evaluation.budget().ChargeSteps(bound.Text(0).size());
  return call.Text(std::string(StripCharacters(call.text, bound.Text(0), sides)));
}

Value Split(const Call& call) {
  const BoundArguments bound(call.arguments, call.name, {"sep", "maxsplit"}, 0);
  SplitOptions options{.max_splits = bound.Integer64(1, -1), .from_right = call.name == "rsplit"};
  if (bound.Has(0) && !bound[0].is_none()) options.separator = &bound.Text(0);
  std::vector<Value> items;
  for (std::string& part : SplitText(call.evaluation, call.text, options))
    items.push_back(Value::StringLike(call.self, std::move(part)));
  return Value::List(std::move(items));
}

Value Lines(const Call& call) {
  const BoundArguments bound(call.arguments, call.name, {"keepends"}, 0);
  call.evaluation.budget().ChargeBytes(call.text.size());
  std::vector<Value> items;
  for (std::string& line : SplitLines(call.evaluation.budget(), call.text, bound.Flag(0, false)))
    items.push_back(Value::StringLike(call.self, std::move(line)));
  call.evaluation.budget().ChargeItems(items.size());
  return Value::List(std::move(items));
}

Value Replace(const Call& call) {
  if (!call.arguments.named.empty()) Raise("str.replace() takes no keyword arguments");
  const BoundArguments bound(call.arguments, call.name, {"old", "new", "count"}, 2);
  return call.Text(ReplaceText(call.evaluation, call.text,
                               Replacement{bound.Text(0), bound.Text(1), bound.Integer64(2, -1)}));
}

Value Join(const Call& call) {
  const BoundArguments bound(call.arguments, call.name, {"iterable"}, 1);
  std::string out;
  std::size_t index = 0;
  for (const Value& item : call.evaluation.Items(bound[0])) {
    if (!item.is_string())
      Raise("sequence item " + std::to_string(index) + ": expected str instance, " +
            std::string(TypeName(item)) + " found");
    call.evaluation.budget().ChargeAppend(out.size(), item.string().size() + call.text.size());
    if (index++ > 0) out += call.text;
    out += call.self.is_markup() ? HtmlEscape(call.evaluation, item) : item.string();
  }
  return call.Text(std::move(out));
}

// The byte range of text[start:stop], both counted in characters.
std::pair<std::size_t, std::size_t> ByteRange(const std::string& text, std::int64_t start,
                                              std::int64_t stop) {
  const auto length = static_cast<std::int64_t>(CountCharacters(text));
  const auto clamp = [length](std::int64_t at) {
    return std::clamp(at < 0 ? at + length : at, std::int64_t{0}, length);
  };
  const auto offset = [&text](std::int64_t character) {
    std::size_t at = 0;
    for (std::int64_t i = 0; i < character; ++i) at += CharacterBytes(text, at);
    return at;
  };
  // A start behind the end matches nothing, not even the empty string.
  if (start > length) return {text.size() + 1, text.size()};
  return {offset(clamp(start)), offset(clamp(stop))};
}

Value StartsOrEnds(const Call& call) {
  const BoundArguments bound(call.arguments, call.name, {"prefix", "start", "end"}, 1);
  const auto [begin, end] = ByteRange(call.text, bound.Integer64(1, 0), bound.Integer64(2, kNoEnd));
  if (begin > end) return Value::Bool(false);
  const std::string_view part = std::string_view(call.text).substr(begin, end - begin);
  const bool at_start = call.name == "startswith";
  const auto matches = [&](const Value& affix) {
    if (affix.is_undefined()) Raise(affix.undefined_message());
    if (!affix.is_string())
      Raise(call.name + " first arg must be str or a tuple of str, not " +
            std::string(TypeName(affix)));
    return at_start ? part.starts_with(affix.string()) : part.ends_with(affix.string());
  };
  if (bound[0].is(Kind::kSequence) && bound[0].sequence().flavor == Flavor::kTuple) {
    for (const Value& affix : bound[0].sequence().items)
      if (matches(affix)) return Value::Bool(true);
    return Value::Bool(false);
  }
  return Value::Bool(matches(bound[0]));
}

Value Find(const Call& call) {
  const BoundArguments bound(call.arguments, call.name, {"sub", "start", "end"}, 1);
  const auto [begin, end] = ByteRange(call.text, bound.Integer64(1, 0), bound.Integer64(2, kNoEnd));
  std::size_t found = std::string_view::npos;
  if (begin <= end) {
    const std::string_view part = std::string_view(call.text).substr(begin, end - begin);
    const bool from_right = call.name.front() == 'r';
    const TextSearch search(call.evaluation.budget(),
                            {.text = part, .needle = bound.Text(0), .from_right = from_right});
    found = search.Find(from_right ? part.size() : 0);
  }
  if (found != std::string_view::npos)
    return Value::Int(static_cast<Integer>(
        CountCharacters(std::string_view(call.text).substr(0, begin + found))));
  if (call.name.ends_with("index")) Raise("substring not found");
  return Value::Int(-1);
}

Value Count(const Call& call) {
  const BoundArguments bound(call.arguments, call.name, {"sub", "start", "end"}, 1);
  const auto [begin, end] = ByteRange(call.text, bound.Integer64(1, 0), bound.Integer64(2, kNoEnd));
  if (begin > end) return Value::Int(0);
  const std::string_view part = std::string_view(call.text).substr(begin, end - begin);
  const std::string& needle = bound.Text(0);
  const TextSearch search(call.evaluation.budget(), {.text = part, .needle = needle});
  if (needle.empty()) return Value::Int(static_cast<Integer>(CountCharacters(part) + 1));
  Integer count = 0;
  for (std::size_t at = search.Find(0); at != TextSearch::kNone;
       at = search.Find(at + needle.size()))
    ++count;
  return Value::Int(count);
}

Value Case(const Call& call) {
  const BoundArguments bound(call.arguments, call.name, {}, 0);
  call.evaluation.budget().ChargeBytes(3 * call.text.size());
  if (call.name == "upper") return call.Text(ToUpper(call.text));
  if (call.name == "lower") return call.Text(ToLower(call.text));
  if (call.name == "casefold") return call.Text(CaseFold(call.text));
  if (call.name == "capitalize") return call.Text(Capitalize(call.text));
  std::string out;
  bool in_word = false;
  for (const std::string_view character : Characters(call.text)) {
    const char32_t c = DecodeCharacter(character, 0);
    const bool cased = IsUpper(c) || IsLower(c) || IsTitle(c);
    if (call.name == "swapcase") {
      out += IsUpper(c) ? ToLower(character) : ToUpper(character);
    } else {
      out += !cased    ? std::string(character)
             : in_word ? ToLower(character)
                       : ToTitleCharacter(character);
    }
    in_word = cased;
  }
  return call.Text(std::move(out));
}

Value Is(const Call& call) {
  const BoundArguments bound(call.arguments, call.name, {}, 0);
  const std::string& name = call.name;
  call.evaluation.budget().ChargeSteps(call.text.size() / 16);
  bool all = true;
  bool any_cased = false;
  bool previous_cased = false;
  bool title = true;
  const bool only_ascii =
      CountCharacters(call.text) == call.text.size() &&
      std::all_of(call.text.begin(), call.text.end(), [](char c) { return (c & 0x80) == 0; });
  if (name == "isascii") return Value::Bool(only_ascii);
  for (std::size_t i = 0; i < call.text.size(); i += CharacterBytes(call.text, i)) {
    const char32_t c = DecodeCharacter(call.text, i);
    const bool upper = IsUpper(c) || IsTitle(c);
    const bool lower = IsLower(c);
    if (upper ? previous_cased : (lower && !previous_cased)) title = false;
    previous_cased = upper || lower;
    any_cased = any_cased || previous_cased;
    bool holds = true;
    if (name == "isspace") holds = IsSpace(c);
    if (name == "isalpha") holds = IsAlpha(c);
    if (name == "isalnum") holds = IsAlpha(c) || IsDecimal(c) || IsDigit(c) || IsNumeric(c);
    if (name == "isdecimal") holds = IsDecimal(c);
    if (name == "isdigit") holds = IsDigit(c);
    if (name == "isnumeric") holds = IsNumeric(c);
    if (name == "isprintable") holds = IsPrintable(c);
    if (name == "isidentifier") holds = c == '_' || IsAlpha(c) || (i > 0 && IsDecimal(c));
    if (name == "isupper") holds = !lower && !IsTitle(c);
    if (name == "islower") holds = !upper;
    all = all && holds;
  }
  if (name == "istitle") return Value::Bool(any_cased && title);
  if (name == "isupper" || name == "islower") return Value::Bool(any_cased && all);
  return Value::Bool(all && (name == "isprintable" || !call.text.empty()));
}

Value JustifyMethod(const Call& call) {
  const BoundArguments bound(call.arguments, call.name, {"width", "fillchar"}, 1);
  Justification how{.side = call.name == "ljust"   ? '<'
                            : call.name == "rjust" ? '>'
                                                   : '^',
                    .width = bound.Integer64(0, 0),
                    .fill = bound.TextOr(1, " ")};
  if (CountCharacters(how.fill) != 1)
    Raise("The fill character must be exactly one character long");
  return call.Text(Justify(call.evaluation, call.text, how));
}

Value ZeroFill(const Call& call) {
  const BoundArguments bound(call.arguments, call.name, {"width"}, 1);
  const bool has_sign = call.text.starts_with('+') || call.text.starts_with('-');
  const std::string_view digits = std::string_view(call.text).substr(has_sign ? 1 : 0);
  const std::int64_t width = bound.Integer64(0, 0) - (has_sign ? 1 : 0);
  return call.Text(call.text.substr(0, has_sign ? 1 : 0) +
                   Justify(call.evaluation, digits, Justification{'>', width, "0"}));
}

Value Partition(const Call& call) {
  const BoundArguments bound(call.arguments, call.name, {"sep"}, 1);
  const std::string& separator = bound.Text(0);
  if (separator.empty()) Raise("empty separator");
  const bool from_right = call.name == "rpartition";
  const TextSearch search(call.evaluation.budget(),
                          {.text = call.text, .needle = separator, .from_right = from_right});
  const std::size_t at = search.Find(from_right ? call.text.size() : 0);
  if (at == TextSearch::kNone)
    return from_right ? Value::Tuple({call.Text(""), call.Text(""), call.self})
                      : Value::Tuple({call.self, call.Text(""), call.Text("")});
  return Value::Tuple({call.Text(call.text.substr(0, at)), call.Text(separator),
                       call.Text(call.text.substr(at + separator.size()))});
}

Value RemoveAffix(const Call& call) {
  const BoundArguments bound(call.arguments, call.name, {"affix"}, 1);
  const std::string& affix = bound.Text(0);
  std::string_view text = call.text;
  if (call.name == "removeprefix") {
    if (text.starts_with(affix)) text.remove_prefix(affix.size());
  } else if (text.ends_with(affix)) {
    text.remove_suffix(affix.size());
  }
  return call.Text(std::string(text));
}

Value ExpandTabs(const Call& call) {
  const BoundArguments bound(call.arguments, call.name, {"tabsize"}, 0);
  const std::int64_t size = std::clamp<std::int64_t>(bound.Integer64(0, 8), 0, 1000);
  std::string out;
  std::int64_t column = 0;
  for (const std::string_view character : Characters(call.text)) {
    if (character == "\t") {
      const std::int64_t blanks = size == 0 ? 0 : size - column % size;
      call.evaluation.budget().ChargeBytes(static_cast<std::size_t>(blanks));
      out.append(static_cast<std::size_t>(blanks), ' ');
      column += blanks;
    } else {
      out += character;
      column = character == "\n" || character == "\r" ? 0 : column + 1;
    }
  }
  return call.Text(std::move(out));
}

Value Format(const Call& call) {
  return BraceFormat(call.evaluation, call.self, call.arguments);
}

struct Entry {
  std::string_view name;
  Handler handler;
};
constexpr std::array<Entry, 44> kMethods = {{
    {"strip", Strip},
    {"lstrip", Strip},
    {"rstrip", Strip},
    {"split", Split},
    {"rsplit", Split},
    {"splitlines", Lines},
    {"replace", Replace},
    {"join", Join},
    {"startswith", StartsOrEnds},
    {"endswith", StartsOrEnds},
    {"find", Find},
    {"rfind", Find},
    {"index", Find},
    {"rindex", Find},
    {"count", Count},
    {"upper", Case},
    {"lower", Case},
    {"casefold", Case},
    {"capitalize", Case},
    {"title", Case},
    {"swapcase", Case},
    {"isspace", Is},
    {"isalpha", Is},
    {"isalnum", Is},
    {"isdecimal", Is},
    {"isdigit", Is},
    {"isnumeric", Is},
    {"isprintable", Is},
    {"isidentifier", Is},
    {"isupper", Is},
    {"islower", Is},
    {"istitle", Is},
    {"isascii", Is},
    {"ljust", JustifyMethod},
    {"rjust", JustifyMethod},
    {"center", JustifyMethod},
    {"zfill", ZeroFill},
    {"partition", Partition},
    {"rpartition", Partition},
    {"removeprefix", RemoveAffix},
    {"removesuffix", RemoveAffix},
    {"expandtabs", ExpandTabs},
    {"format", Format},
    {"format_map", nullptr},
}};

Value FormatMap(const Call& call) {
  const BoundArguments bound(call.arguments, call.name, {"mapping"}, 1);
  if (!bound[0].is(Kind::kDict)) Raise("format_map needs a mapping");
  Arguments named;
  for (const auto& [key, value] : bound[0].dict().entries())
    if (key.is_string()) named.named.emplace_back(key.string(), value);
  call.evaluation.budget().ChargeItems(named.named.size());
  return BraceFormat(call.evaluation, call.self, named);
}

}  // namespace

bool IsStringMethod(std::string_view name) {
  return FindByName(kMethods, name) != nullptr;
}

Value CallStringMethod(Evaluation& evaluation, const BoundMethod& method,
                       const Arguments& arguments) {
  const Call call{evaluation, method.self, method.self.string(), method.name, arguments};
  const Handler handler = FindByName(kMethods, method.name)->handler;
  return handler == nullptr ? FormatMap(call) : handler(call);
}

std::string Capitalize(std::string_view text) {
  if (text.empty()) return {};
  const std::size_t first = CharacterBytes(text, 0);
  return ToTitleCharacter(text.substr(0, first)) + ToLower(text.substr(first));
}

std::vector<std::string> SplitLines(const Budget& budget, std::string_view text, bool keep_ends) {
  std::vector<std::string> lines;
  std::size_t start = 0;
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = DecodeCharacter(text, i);
    std::size_t end = i + CharacterBytes(text, i);
    const bool is_break = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 ||
                          c == 0x2028 || c == 0x2029;
    if (is_break) {
      budget.CheckItems(lines.size() + 1);
      if (c == '\r' && end < text.size() && text[end] == '\n') ++end;
      lines.emplace_back(text.substr(start, (keep_ends ? end : i) - start));
      start = end;
    }
    i = end;
  }
  if (start < text.size()) lines.emplace_back(text.substr(start));
  return lines;
}

std::string ReplaceText(Evaluation& evaluation, std::string_view text,
                        const Replacement& replacement) {
  std::string out;
  std::int64_t left = replacement.count < 0 ? kNoEnd : replacement.count;
  const auto emit = [&](std::string_view piece) {
    evaluation.budget().ChargeAppend(out.size(), piece.size());
    out += piece;
  };
  std::size_t at = 0;
  if (replacement.from.empty()) {
    // Python puts the replacement before every character and at the end.
    while (left > 0 && at <= text.size()) {
      evaluation.budget().ChargeSteps(1);
      emit(replacement.to);
      --left;
      if (at == text.size()) return out;
      const std::size_t length = CharacterBytes(text, at);
      emit(text.substr(at, length));
      at += length;
    }
    emit(text.substr(std::min(at, text.size())));
    return out;
  }
  const TextSearch search(evaluation.budget(), {.text = text, .needle = replacement.from});
  while (left > 0) {
    const std::size_t found = search.Find(at);
    if (found == TextSearch::kNone) break;
    evaluation.budget().ChargeSteps(1);
    emit(text.substr(at, found - at));
    emit(replacement.to);
    at = found + replacement.from.size();
    --left;
  }
  emit(text.substr(at));
  return out;
}

std::string Justify(Evaluation& evaluation, std::string_view text, const Justification& how) {
  const auto length = static_cast<std::int64_t>(CountCharacters(text));
  if (how.width <= length) return std::string(text);
  const std::int64_t missing = how.width - length;
  const auto most = static_cast<std::int64_t>(evaluation.budget().limits().max_value_bytes);
  evaluation.budget().ChargeBytes(
      static_cast<std::size_t>(missing > most / 4 ? most + 1 : missing * 4));
  // Python's centre puts the odd blank left if both the lack and the width are odd.
  const std::int64_t left = how.side == '<'   ? 0
                            : how.side == '>' ? missing
                                              : missing / 2 + (missing & how.width & 1);
  std::string out;
  for (std::int64_t i = 0; i < left; ++i) out += how.fill;
  out += text;
  for (std::int64_t i = left; i < missing; ++i) out += how.fill;
  return out;
}

}  // namespace baton::templates
