// Specifications of fields ("08.3f") and how numbers and text look under them; then the two readers
// of format strings, for % and for braces.
#include "text/template_format.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string_view>

#include "text/template_failure.h"
#include "text/template_operators.h"
#include "text/template_print.h"
#include "text/template_unicode.h"
#include "text/unicode.h"

namespace baton::templates {
namespace {

// Widths and precisions beyond this are refused.
constexpr std::size_t kMaxWidth = 10'000;
constexpr int kMaxPrecision = 500;

struct Spec {
  std::string fill = " ";
  char align = 0;            // '<', '>', '^', '='
  bool zero_padded = false;  // the alignment comes from a width that begins with 0
  char sign = '-';
  bool alternate = false;
  std::size_t width = 0;
  char grouping = 0;
  std::optional<int> precision = std::nullopt;
  char type = 0;
};

std::string Padded(const std::string& prefix, const std::string& body, const Spec& spec,
                   char default_align) {
  const std::size_t length = CountCharacters(prefix) + CountCharacters(body);
  if (length >= spec.width) return prefix + body;
  const std::size_t missing = spec.width - length;
  const auto fill = [&spec](std::size_t count) {
    std::string out;
    for (std::size_t i = 0; i < count; ++i) out += spec.fill;
    return out;
  };
  switch (spec.align != 0 ? spec.align : default_align) {
    case '<':
      return prefix + body + fill(missing);
    case '^':
      return fill(missing / 2) + prefix + body + fill(missing - missing / 2);
    case '=':
      return prefix + fill(missing) + body;
    default:
      return fill(missing) + prefix + body;
  }
}

std::string Grouped(const std::string& digits, char separator, std::size_t group) {
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % group == 0) out += separator;
    out += digits[i];
  }
  return out;
}

std::string IntegerDigits(Integer value, char type) {
  const unsigned base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
  unsigned __int128 rest =
      value < 0 ? -static_cast<unsigned __int128>(value) : static_cast<unsigned __int128>(value);
  std::string digits;
  do {
    digits.insert(digits.begin(),
                  (type == 'X' ? "0123456789ABCDEF"
                               : "0123456789abcdef")[static_cast<unsigned>(rest % base)]);
    rest /= base;
  } while (rest != 0);
  return digits;
}

std::string SignText(bool negative, char sign) {
  if (negative) return "-";
  return sign == '+' ? "+" : sign == ' ' ? " " : "";
}

std::string FormatInteger(Integer value, const Spec& spec) {
  std::string digits = IntegerDigits(value, spec.type);
  const bool decimal = spec.type == 0 || spec.type == 'd' || spec.type == 'n';
  if (spec.grouping != 0) digits = Grouped(digits, spec.grouping, decimal ? 3 : 4);
  std::string prefix = SignText(value < 0, spec.sign);
  if (spec.alternate && !decimal) prefix += std::string("0") + spec.type;
  return Padded(prefix, digits, spec, '>');
}

std::string PlainFloat(double value, const Spec& spec) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return "inf";
  if (spec.type == 0 && !spec.precision.has_value()) return FloatText(value);
  const char type = spec.type == 0 ? 'g' : spec.type == '%' ? 'f' : spec.type;
  const int precision = spec.precision.value_or(6);
  std::array<char, 1024> buffer;
  const char format[] = {'%',
                         spec.alternate ? '#' : '.',
                         spec.alternate ? '.' : '*',
                         spec.alternate ? '*' : type,
                         spec.alternate ? type : '\0',
                         '\0'};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  const int length = std::snprintf(buffer.data(), buffer.size(), format, precision, value);
#pragma GCC diagnostic pop
  if (length < 0 || static_cast<std::size_t>(length) >= buffer.size())
    Raise("the number is too long to print");
  std::string text(buffer.data(), static_cast<std::size_t>(length));
  // Without a type, Python keeps one digit behind the point.
  if (spec.type == 0 && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string FormatFloat(double value, const Spec& spec) {
  const bool negative = std::signbit(value) && !std::isnan(value);
  const double shown = std::fabs(value) * (spec.type == '%' ? 100 : 1);
  std::string text = PlainFloat(shown, spec);
  if (spec.type == 'F' || spec.type == 'E' || spec.type == 'G') text = ToUpper(text);
  if (spec.grouping != 0) {
    const std::size_t end = std::min(text.find_first_of(".e"), text.size());
    text = Grouped(text.substr(0, end), spec.grouping, 3) + text.substr(end);
  }
  if (spec.type == '%') text += "%";
  return Padded(SignText(negative, spec.sign), text, spec, '>');
}

std::string Truncated(const std::string& text, const std::optional<int>& precision) {
  if (!precision.has_value()) return text;
  std::size_t end = 0;
  for (int i = 0; i < *precision && end < text.size(); ++i) end += CharacterBytes(text, end);
  return text.substr(0, end);
}

bool IsFloatType(char type) {
  return std::string_view("eEfFgG%").find(type) != std::string_view::npos && type != 0;
}

// format(value, spec), for "{:...}".
std::string FormatValue(Evaluation& evaluation, const Value& value, const Spec& spec,
                        bool is_empty) {
  if (is_empty) return evaluation.Text(value);
  if (value.is_string()) {
    if ((spec.type != 0 && spec.type != 's') || (spec.align == '=' && !spec.zero_padded) ||
        spec.sign != '-' || spec.grouping != 0 || spec.alternate)
      Raise("this format is not for strings");
    Spec text_spec = spec;
    if (spec.zero_padded) text_spec.align = '<';
    return Padded("", Truncated(value.string(), spec.precision), text_spec, '<');
  }
  if (value.is_integral() && !IsFloatType(spec.type)) {
    if (spec.type == 'c') {
      std::string text;
      if (value.integer() < 0 || value.integer() > 0x10FFFF ||
          (value.integer() >= 0xD800 && value.integer() <= 0xDFFF))
        Raise("%c arg not in range(0x110000)");
      AppendUtf8(static_cast<std::uint32_t>(value.integer()), text);
      return Padded("", text, spec, '<');
    }
    if (std::string_view("dnxXob").find(spec.type) == std::string_view::npos && spec.type != 0)
      Raise("this format is not for integers");
    if (spec.precision.has_value()) Raise("Precision not allowed in integer format specifier");
    return FormatInteger(value.integer(), spec);
  }
  if (value.is_number()) {
    if (!IsFloatType(spec.type) && spec.type != 0 && spec.type != 'n')
      Raise("this format is not for floats");
    return FormatFloat(value.number(), spec);
  }
  Raise("unsupported format string passed to " + std::string(TypeName(value)) + ".__format__");
}

std::size_t ReadCount(std::string_view text, std::size_t* at) {
  std::size_t count = 0;
  while (*at < text.size() && text[*at] >= '0' && text[*at] <= '9') {
    count = count * 10 + static_cast<std::size_t>(text[(*at)++] - '0');
    if (count > kMaxWidth) Raise("the width is too large");
  }
  return count;
}

int CheckedPrecision(std::size_t count) {
  if (count > static_cast<std::size_t>(kMaxPrecision)) Raise("the precision is too large");
  return static_cast<int>(count);
}

bool IsAlign(char c) {
  return c == '<' || c == '>' || c == '^' || c == '=';
}

Spec ParseSpec(std::string_view text) {
  Spec spec;
  std::size_t at = 0;
  const std::size_t first = text.empty() ? 0 : CharacterBytes(text, 0);
  const bool has_fill = first > 0 && first < text.size() && IsAlign(text[first]);
  if (has_fill) {
    spec.fill = std::string(text.substr(0, first));
    spec.align = text[first];
    at = first + 1;
  } else if (!text.empty() && IsAlign(text[0])) {
    spec.align = text[0];
    at = 1;
  }
  const auto peek = [&] { return at < text.size() ? text[at] : '\0'; };
  if (peek() == '+' || peek() == '-' || peek() == ' ') spec.sign = text[at++];
  if (peek() == '#') {
    spec.alternate = true;
    ++at;
  }
  if (peek() == '0') {
    if (!has_fill) spec.fill = "0";
    spec.zero_padded = spec.align == 0;
    if (spec.zero_padded) spec.align = '=';
    ++at;
  }
  spec.width = ReadCount(text, &at);
  if (peek() == ',' || peek() == '_') spec.grouping = text[at++];
  if (peek() == '.') {
    ++at;
    if (peek() < '0' || peek() > '9') Raise("Format specifier missing precision");
    spec.precision = CheckedPrecision(ReadCount(text, &at));
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) Raise("Invalid format specifier");
  return spec;
}

// "%" formatting, one conversion after the other.
class PercentFormatter {
 public:
  PercentFormatter(Evaluation& evaluation, const Value& format, const Value& values)
      : evaluation_(evaluation), format_(format), text_(format.string()), values_(values) {
    is_tuple_ = values.is(Kind::kSequence) && values.sequence().flavor == Flavor::kTuple;
  }

  Value Run() {
    std::string out;
    while (at_ < text_.size()) {
      if (text_[at_] != '%') {
        out += text_[at_++];
        continue;
      }
      ++at_;
      out += Conversion();
      evaluation_.budget().ChargeSteps(1);
      evaluation_.budget().CheckValue(out.size());
    }
    const std::size_t count = is_tuple_ ? values_.sequence().items.size() : 1;
    const bool is_mapping = values_.is(Kind::kDict) || values_.is_undefined() ||
                            (values_.is(Kind::kSequence) && !is_tuple_);
    if (next_ < count && !is_mapping) Raise("not all arguments converted during string formatting");
    evaluation_.budget().ChargeBytes(out.size());
    return Value::StringLike(format_, std::move(out));
  }

 private:
  Value NextValue() {
    if (is_tuple_) {
      if (next_ >= values_.sequence().items.size()) Raise("not enough arguments for format string");
      return values_.sequence().items[next_++];
    }
    if (next_++ > 0) Raise("not enough arguments for format string");
    return values_;
  }

  std::size_t StarOrCount() {
    if (at_ >= text_.size() || text_[at_] != '*') return ReadCount(text_, &at_);
    ++at_;
    const Value value = NextValue();
    if (!value.is_integral() || value.integer() < 0 || value.integer() > 10'000)
      Raise("* wants an integer of moderate size");
    return static_cast<std::size_t>(value.integer());
  }

  std::string Conversion() {
    Spec spec;
    std::optional<Value> named;
    if (at_ < text_.size() && text_[at_] == '(') {
      const std::size_t end = text_.find(')', at_);
      if (end == std::string::npos) Raise("incomplete format key");
      if (!values_.is(Kind::kDict)) Raise("format requires a mapping");
      const std::string key = text_.substr(at_ + 1, end - at_ - 1);
      const Value* value = values_.dict().Find(key);
      if (value == nullptr) Raise("KeyError: '" + key + "'");
      named = *value;
      at_ = end + 1;
    }
    bool zero = false;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '-')
        spec.align = '<';
      else if (c == '+')
        spec.sign = '+';
      else if (c == ' ')
        spec.sign = spec.sign == '+' ? '+' : ' ';
      else if (c == '#')
        spec.alternate = true;
      else if (c == '0')
        zero = true;
      else
        break;
    }
    spec.width = StarOrCount();
    if (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      spec.precision = CheckedPrecision(StarOrCount());
    }
    while (at_ < text_.size() && (text_[at_] == 'l' || text_[at_] == 'h' || text_[at_] == 'L'))
      ++at_;
    if (at_ >= text_.size()) Raise("incomplete format");
    spec.type = text_[at_++];
    if (spec.type == '%') return "%";
    if (zero && spec.align == 0 && spec.type != 's' && spec.type != 'r' && spec.type != 'c') {
      spec.align = '=';
      spec.fill = "0";
    }
    return Convert(named.has_value() ? *named : NextValue(), spec);
  }

  std::string Convert(const Value& value, Spec spec) {
    switch (spec.type) {
      case 's':
      case 'r':
      case 'a': {
        evaluation_.budget().ChargeBytes(value.weight());
        std::string text = spec.type == 's' ? Str(value) : Repr(value);
        if (format_.is_markup() && !(spec.type == 's' && value.is_markup()))
          text = HtmlEscape(text);
        return Padded("", Truncated(text, spec.precision), spec, '>');
      }
      case 'c':
        if (value.is_string() && CountCharacters(value.string()) == 1)
          return Padded("", value.string(), spec, '>');
        if (!value.is_integral()) Raise("%c requires int or char");
        if (spec.align == 0) spec.align = '>';
        return FormatValue(evaluation_, value, spec, false);
      case 'd':
      case 'i':
      case 'u':
        return ConvertInteger(value, spec);
      case 'x':
      case 'X':
      case 'o':
        if (!value.is_integral())
          Raise(std::string("%") + spec.type + " format: an integer is required, not " +
                std::string(TypeName(value)));
        return ConvertInteger(value, spec);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        if (value.is_undefined()) Raise(value.undefined_message());
        if (!value.is_number()) Raise("must be real number, not " + std::string(TypeName(value)));
        return FormatFloat(value.number(), spec);
      default:
        Raise(std::string("unsupported format character '") + spec.type + "'");
    }
  }

  std::string ConvertInteger(const Value& value, Spec spec) {
    if (value.is_undefined()) Raise(value.undefined_message());
    if (!value.is_number())
      Raise(std::string("%") + spec.type + " format: a real number is required, not " +
            std::string(TypeName(value)));
    if (value.is(Kind::kFloat) && !(std::fabs(value.floating()) < 1e30))
      Raise("cannot convert this float to integer");
    const Integer number =
        value.is_integral() ? value.integer() : static_cast<Integer>(value.floating());
    if (spec.type == 'i' || spec.type == 'u') spec.type = 'd';
    std::string digits = IntegerDigits(number, spec.type);
    if (spec.precision.has_value() && digits.size() < static_cast<std::size_t>(*spec.precision))
      digits.insert(0, static_cast<std::size_t>(*spec.precision) - digits.size(), '0');
    std::string prefix = SignText(number < 0, spec.sign);
    if (spec.alternate && spec.type != 'd') prefix += std::string("0") + spec.type;
    return Padded(prefix, digits, spec, '>');
  }

  Evaluation& evaluation_;
  const Value& format_;
  const std::string& text_;
  const Value& values_;
  bool is_tuple_ = false;
  std::size_t at_ = 0;
  std::size_t next_ = 0;
};

// str.format: fields in braces.
class BraceFormatter {
 public:
  BraceFormatter(Evaluation& evaluation, const Value& format, const Arguments& arguments)
      : evaluation_(evaluation), format_(format), arguments_(arguments) {}

  Value Run() { return Value::StringLike(format_, Expand(format_.string(), 0)); }

 private:
  std::string Expand(std::string_view text, int level) {
    if (level > 1) Raise("Max string recursion exceeded");
    std::string out;
    for (std::size_t i = 0; i < text.size();) {
      const char c = text[i];
      if (c != '{' && c != '}') {
        out += c;
        ++i;
      } else if (i + 1 < text.size() && text[i + 1] == c) {
        out += c;
        i += 2;
      } else if (c == '}') {
        Raise("Single '}' encountered in format string");
      } else {
        const std::size_t end = FieldEnd(text, i + 1);
        out += Field(text.substr(i + 1, end - i - 1), level);
        i = end + 1;
        evaluation_.budget().ChargeSteps(1);
        evaluation_.budget().CheckValue(out.size());
      }
    }
    evaluation_.budget().ChargeBytes(out.size());
    return out;
  }

  static std::size_t FieldEnd(std::string_view text, std::size_t at) {
    int open = 1;
    for (; at < text.size(); ++at) {
      if (text[at] == '{') ++open;
      if (text[at] == '}' && --open == 0) return at;
    }
    Raise("expected '}' before end of string");
  }

  std::string Field(std::string_view field, int level) {
    const std::size_t bracket = field.find('[');
    std::size_t name_end = field.find_first_of("!:");
    if (bracket != std::string_view::npos && name_end != std::string_view::npos &&
        bracket < name_end) {
      const std::size_t close = field.find(']', bracket);
      name_end = close == std::string_view::npos ? field.size() : field.find_first_of("!:", close);
    }
    if (name_end == std::string_view::npos) name_end = field.size();
    Value value = Lookup(field.substr(0, name_end));
    std::string_view rest = field.substr(name_end);
    if (rest.starts_with('!')) {
      const char conversion = rest.size() > 1 ? rest[1] : '\0';
      if (conversion != 's' && conversion != 'r' && conversion != 'a')
        Raise("Unknown conversion specifier in format string");
      evaluation_.budget().ChargeBytes(value.weight());
      value = Value::String(conversion == 's' ? Str(value) : Repr(value));
      rest.remove_prefix(2);
    }
    std::string spec;
    if (rest.starts_with(':')) {
      spec = Expand(rest.substr(1), level + 1);
    } else if (!rest.empty()) {
      Raise("expected ':' after conversion specifier");
    }
    std::string text = FormatValue(evaluation_, value, ParseSpec(spec), spec.empty());
    return format_.is_markup() && !value.is_markup() ? HtmlEscape(text) : text;
  }

  Value Lookup(std::string_view name) {
    std::size_t at = std::min(name.find_first_of(".["), name.size());
    Value value = First(name.substr(0, at));
    while (at < name.size()) {
      evaluation_.budget().ChargeSteps(1);
      if (name[at] == '.') {
        const std::size_t end = std::min(name.find_first_of(".[", at + 1), name.size());
        value = evaluation_.Attribute(value, name.substr(at + 1, end - at - 1));
        at = end;
      } else {
        const std::size_t end = name.find(']', at);
        if (name[at] != '[' || end == std::string_view::npos)
          Raise("expected ']' in format string");
        const std::string key(name.substr(at + 1, end - at - 1));
        const bool is_index = !key.empty() && key.size() < 10 &&
                              key.find_first_not_of("0123456789") == std::string::npos;
        value = evaluation_.Item(value, is_index ? Value::Int(std::stol(key)) : Value::String(key));
        at = end + 1;
      }
    }
    return value;
  }

  Value First(std::string_view name) {
    std::size_t index = next_;
    if (name.empty()) {
      ++next_;
    } else if (name.size() < 10 && name.find_first_not_of("0123456789") == std::string_view::npos) {
      index = static_cast<std::size_t>(std::stol(std::string(name)));
    } else {
      for (const auto& [own_name, value] : arguments_.named)
        if (own_name == name) return value;
      Raise("KeyError: '" + std::string(name) + "'");
    }
    if (index >= arguments_.positional.size())
      Raise("Replacement index " + std::to_string(index) +
            " out of range for positional args tuple");
    return arguments_.positional[index];
  }

  Evaluation& evaluation_;
  const Value& format_;
  const Arguments& arguments_;
  std::size_t next_ = 0;
};

}  // namespace

Value PercentFormat(Evaluation& evaluation, const Value& format, const Value& values) {
  return PercentFormatter(evaluation, format, values).Run();
}

Value BraceFormat(Evaluation& evaluation, const Value& format, const Arguments& arguments) {
  return BraceFormatter(evaluation, format, arguments).Run();
}

}  // namespace baton::templates
