// One class that walks the source once: text, comments, raw sections, tags and the tokens in them.
#include "text/template_lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

#include "text/template_unicode.h"
#include "text/unicode.h"

namespace baton::templates {
namespace {

bool IsAsciiDigit(char c) {
  return c >= '0' && c <= '9';
}
bool IsHexDigit(char c) {
  return IsAsciiDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
bool IsNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}
bool IsNamePart(char c) {
  return IsNameStart(c) || IsAsciiDigit(c);
}

// Longest first, so that the first that matches is the right one.
constexpr std::array<std::string_view, 28> kOperators = {
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]",
    "(",  ")",  "{",  "}",  ">",  "<",  "=", ".", ":", "|", ",", ";", "!", "&"};

// All line ends become "\n"; one at the very end is dropped.
std::string NormalizeSource(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out.push_back(source[i]);
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> Run() {
    while (offset_ < source_.size()) ReadDataAndTagStart();
    Emit(TokenType::kEnd, {}, Here());
    return std::move(tokens_);
  }

 private:
  std::string_view Rest() const { return std::string_view(source_).substr(offset_); }
  bool At(std::string_view text) const { return Rest().starts_with(text); }

  // The place of the present offset; offsets are only ever asked for in rising order.
  Position Here() { return PlaceOf(offset_); }
  Position PlaceOf(std::size_t offset) {
    if (offset < placed_offset_) {
      placed_offset_ = 0;
      place_ = Position{};
    }
    for (; placed_offset_ < offset; ++placed_offset_) {
      const char c = source_[placed_offset_];
      if (c == '\n') {
        ++place_.line;
        place_.column = 1;
      } else if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) {
        ++place_.column;
      }
    }
    return place_;
  }

  void Emit(TokenType type, std::string text, Position position) {
    tokens_.push_back(Token{type, std::move(text), Value(), position});
  }

  void EmitData(std::string_view text, Position position) {
    if (!text.empty()) Emit(TokenType::kData, std::string(text), position);
  }

  void SkipSpace() {
    while (offset_ < source_.size() && IsSpace(DecodeCharacter(source_, offset_)))
      offset_ += CharacterBytes(source_, offset_);
  }

  // Reads '-' or '+' behind the start of a tag; 0 if there is neither.
  char ReadSign() {
    if (offset_ < source_.size() && (source_[offset_] == '-' || source_[offset_] == '+'))
      return source_[offset_++];
    return 0;
  }

  // The text before a tag after white-space control.
  std::string_view Trimmed(std::string_view text, char sign, bool is_variable) const {
    if (sign == '-') return StripSpace(text, StripSides::kRight);
    if (sign == '+' || is_variable) return text;
    const std::size_t newline = text.rfind('\n');
    if (newline == std::string_view::npos && !line_starting_) return text;
    const std::size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    if (StripSpace(text.substr(line), StripSides::kLeft).empty()) return text.substr(0, line);
    return text;
  }

  // Whether the closing of a tag stands here: [sign]close; moves behind it and what it swallows.
  bool ReadTagEnd(std::string_view close, bool allow_plus, bool swallow_newline) {
    const std::size_t start = offset_;
    const char sign = ReadSign();
    if (!At(close) || (sign == '+' && !allow_plus)) {
      offset_ = start;
      return false;
    }
    offset_ += close.size();
    if (sign == '-') SkipSpace();
    if (sign == 0 && swallow_newline && At("\n")) ++offset_;
    line_starting_ = source_[offset_ - 1] == '\n';
    return true;
  }

  void ReadDataAndTagStart() {
    const std::size_t start = offset_;
    std::size_t tag = std::string::npos;
    for (std::size_t i = offset_; i + 1 < source_.size(); ++i) {
      const char next = source_[i + 1];
      if (source_[i] == '{' && (next == '{' || next == '%' || next == '#')) {
        tag = i;
        break;
      }
    }
    const Position position = Here();
    if (tag == std::string::npos) {
      EmitData(Rest(), position);
      offset_ = source_.size();
      return;
    }
    const std::string_view data = std::string_view(source_).substr(start, tag - start);
    offset_ = tag + 2;
    const char kind = source_[tag + 1];
    const Position tag_position = PlaceOf(tag);
    const std::size_t behind_start = offset_;
    const char sign = ReadSign();
    EmitData(Trimmed(data, sign, kind == '{'), position);
    if (kind == '#') {
      ReadComment(tag_position);
    } else if (kind == '{') {
      Emit(TokenType::kVariableBegin, "{{", tag_position);
      ReadTag(/*is_block=*/false, tag_position);
    } else {
      if (ReadRaw(tag_position)) return;
      offset_ = behind_start + (sign == 0 ? 0 : 1);
      Emit(TokenType::kBlockBegin, "{%", tag_position);
      ReadTag(/*is_block=*/true, tag_position);
    }
  }

  void ReadComment(Position position) {
    for (; offset_ < source_.size(); ++offset_) {
      // A sign belongs to the closing only where it stands right before it.
      if ((At("-#}") || At("+#}") || At("#}")) && ReadTagEnd("#}", true, true)) return;
    }
    RaiseSyntax(position, "the comment is not closed: #} is missing");
  }

  // Reads a raw section if its opening tag stands here (behind "{%" and the sign).
  bool ReadRaw(Position position) {
    const std::size_t start = offset_;
    SkipSpace();
    if (!At("raw")) {
      offset_ = start;
      return false;
    }
    offset_ += 3;
    SkipSpace();
    if (!ReadTagEnd("%}", false, false)) {
      offset_ = start;
      return false;
    }
    const std::size_t text_start = offset_;
    const Position text_position = Here();
    for (std::size_t i = text_start; i + 1 < source_.size(); ++i) {
      if (source_[i] != '{' || source_[i + 1] != '%') continue;
      offset_ = i + 2;
      const char sign = ReadSign();
      SkipSpace();
      if (!At("endraw")) continue;
      offset_ += 6;
      SkipSpace();
      const std::string_view data =
          Trimmed(std::string_view(source_).substr(text_start, i - text_start), sign, false);
      if (!ReadTagEnd("%}", true, true)) continue;
      EmitData(data, text_position);
      return true;
    }
    RaiseSyntax(position, "the raw section is not closed: {% endraw %} is missing");
  }

  // The tokens inside a tag up to its end.
  void ReadTag(bool is_block, Position position) {
    std::string open;  // brackets that wait for their other half
    while (offset_ < source_.size()) {
      const Position here = Here();
      if (open.empty() && ReadTagEnd(is_block ? "%}" : "}}", is_block, is_block)) {
        Emit(is_block ? TokenType::kBlockEnd : TokenType::kVariableEnd, is_block ? "%}" : "}}",
             here);
        return;
      }
      if (IsSpace(DecodeCharacter(source_, offset_))) {
        SkipSpace();
        continue;
      }
      const char c = source_[offset_];
      if (IsAsciiDigit(c)) {
        ReadNumber(here);
      } else if (IsNameStart(c)) {
        ReadName(here);
      } else if (c == '\'' || c == '"') {
        ReadString(here);
      } else {
        ReadOperator(&open, here);
      }
    }
    RaiseSyntax(position, is_block ? "the tag is not closed: %} is missing"
                                   : "the expression is not closed: }} is missing");
  }

  void ReadName(Position here) {
    const std::size_t start = offset_;
    while (offset_ < source_.size() && IsNamePart(source_[offset_])) {
      const char32_t c = DecodeCharacter(source_, offset_);
      if (c >= 0x80 && IsSpace(c)) break;
      offset_ += CharacterBytes(source_, offset_);
    }
    Emit(TokenType::kName, source_.substr(start, offset_ - start), here);
  }

  void ReadOperator(std::string* open, Position here) {
    const auto op = std::find_if(kOperators.begin(), kOperators.end(),
                                 [this](std::string_view text) { return At(text); });
    if (op == kOperators.end() || *op == "!" || *op == "&") {
      const std::size_t length = CharacterBytes(source_, offset_);
      RaiseSyntax(here, "unexpected character '" + source_.substr(offset_, length) + "'");
    }
    const char c = op->front();
    if (op->size() == 1 && (c == '(' || c == '[' || c == '{')) {
      open->push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    } else if (op->size() == 1 && (c == ')' || c == ']' || c == '}')) {
      if (open->empty()) RaiseSyntax(here, std::string("unexpected '") + c + "'");
      if (open->back() != c)
        RaiseSyntax(here, std::string("unexpected '") + c + "', expected '" + open->back() + "'");
      open->pop_back();
    }
    offset_ += op->size();
    Emit(TokenType::kOperator, std::string(*op), here);
  }

  // Digits with single underscores between them, appended without these.
  template <typename IsDigitOf>
  std::size_t SkipDigits(std::size_t at, IsDigitOf is_digit, std::string* digits) const {
    while (at < source_.size()) {
      if (is_digit(source_[at])) {
        digits->push_back(source_[at++]);
      } else if (source_[at] == '_' && !digits->empty() && at + 1 < source_.size() &&
                 is_digit(source_[at + 1])) {
        ++at;
      } else {
        break;
      }
    }
    return at;
  }

  void ReadNumber(Position here) {
    if (ReadFloat(here)) return;
    const auto is_decimal = [](char c) { return IsAsciiDigit(c); };
    int base = 10;
    std::string digits;
    std::size_t end = offset_;
    if (source_[offset_] == '0' && offset_ + 1 < source_.size()) {
      const char mark = static_cast<char>(source_[offset_ + 1] | 0x20);
      base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
    }
    if (base != 10) {
      const auto is_digit = [base](char c) {
        return base == 16 ? IsHexDigit(c) : c >= '0' && c < '0' + base;
      };
      std::size_t digits_start = offset_ + 2;
      if (digits_start < source_.size() && source_[digits_start] == '_') ++digits_start;
      end = SkipDigits(digits_start, is_digit, &digits);
      if (digits.empty()) base = 10;
    }
    if (base == 10) {
      digits.clear();
      if (source_[offset_] == '0') {
        end = SkipDigits(
            offset_, [](char c) { return c == '0'; }, &digits);
      } else {
        end = SkipDigits(offset_, is_decimal, &digits);
      }
    }
    unsigned __int128 number = 0;
    for (const char c : digits) {
      const int digit = IsAsciiDigit(c) ? c - '0' : (c | 0x20) - 'a' + 10;
      if (number >> 96 != 0) RaiseSyntax(here, "the integer is too large");
      number = number * static_cast<unsigned>(base) + static_cast<unsigned>(digit);
    }
    offset_ = end;
    tokens_.push_back(
        Token{TokenType::kInteger, digits, Value::Int(static_cast<Integer>(number)), here});
  }

  bool ReadFloat(Position here) {
    if (offset_ > 0 && source_[offset_ - 1] == '.') return false;
    const auto is_decimal = [](char c) { return IsAsciiDigit(c); };
    std::string text;
    std::size_t end = SkipDigits(offset_, is_decimal, &text);
    bool is_float = false;
    std::string fraction;
    if (end < source_.size() && source_[end] == '.') {
      const std::size_t fraction_end = SkipDigits(end + 1, is_decimal, &fraction);
      if (!fraction.empty()) {
        text += "." + fraction;
        end = fraction_end;
        is_float = true;
      }
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      std::size_t at = end + 1;
      std::string exponent = "e";
      if (at < source_.size() && (source_[at] == '+' || source_[at] == '-')) {
        if (source_[at] == '-') exponent.push_back('-');
        ++at;
      }
      std::string digits;
      at = SkipDigits(at, is_decimal, &digits);
      if (!digits.empty()) {
        text += exponent + digits;
        end = at;
        is_float = true;
      }
    }
    if (!is_float) return false;
    double number = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (stop != text.data() + text.size()) RaiseSyntax(here, "this is no number");
    // Too large is infinite and too small is zero, as Python reads them.
    if (error == std::errc::result_out_of_range)
      number = text.find("e-") == std::string::npos ? HUGE_VAL : 0.0;
    offset_ = end;
    tokens_.push_back(Token{TokenType::kFloat, text, Value::Float(number), here});
    return true;
  }

  void ReadString(Position here) {
    const char quote = source_[offset_++];
    std::string text;
    while (offset_ < source_.size() && source_[offset_] != quote) {
      if (source_[offset_] == '\\') {
        ReadEscape(&text, here);
      } else {
        text.push_back(source_[offset_++]);
      }
    }
    if (offset_ >= source_.size()) RaiseSyntax(here, "the string is not closed");
    ++offset_;
    Emit(TokenType::kString, std::move(text), here);
  }

  void ReadEscape(std::string* text, Position here) {
    ++offset_;
    if (offset_ >= source_.size()) return;
    const char c = source_[offset_++];
    constexpr std::string_view kLetters = "ntrabfv\\'\"";
    constexpr std::string_view kMeanings = "\n\t\r\a\b\f\v\\'\"";
    if (const std::size_t index = kLetters.find(c); index != std::string_view::npos) {
      text->push_back(kMeanings[index]);
    } else if (c == '\n') {
      // A line that continues on the next one.
    } else if (c >= '0' && c <= '7') {
      unsigned code = static_cast<unsigned>(c - '0');
      for (int i = 0; i < 2 && offset_ < source_.size(); ++i) {
        if (source_[offset_] < '0' || source_[offset_] > '7') break;
        code = code * 8 + static_cast<unsigned>(source_[offset_++] - '0');
      }
      AppendUtf8(code, *text);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      AppendUtf8(ReadHexEscape(c == 'x' ? 2 : c == 'u' ? 4 : 8, here), *text);
    } else if (c == 'N') {
      RaiseSyntax(here, "escapes by character name (\\N{...}) are not supported");
    } else {
      text->push_back('\\');
      text->push_back(c);
    }
  }

  char32_t ReadHexEscape(int digits, Position here) {
    char32_t code = 0;
    for (int i = 0; i < digits; ++i) {
      if (offset_ >= source_.size() || !IsHexDigit(source_[offset_]))
        RaiseSyntax(here, "the escape in this string is cut short");
      const char c = source_[offset_++];
      code = code * 16 + static_cast<char32_t>(IsAsciiDigit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
      RaiseSyntax(here, "the escape in this string names no character");
    return code;
  }

  std::string source_;
  std::size_t offset_ = 0;
  std::size_t placed_offset_ = 0;
  Position place_;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> Tokenize(std::string_view source) {
  return Lexer(NormalizeSource(source)).Run();
}

}  // namespace baton::templates
