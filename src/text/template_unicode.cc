#include "text/template_unicode.h"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>

#include "text/unicode.h"

namespace baton::templates {
namespace {

icu::UnicodeString FromUtf8(std::string_view text) {
  return icu::UnicodeString::fromUTF8(
      icu::StringPiece(text.data(), static_cast<std::int32_t>(text.size())));
}

std::string ToUtf8(const icu::UnicodeString& text) {
  std::string out;
  text.toUTF8String(out);
  return out;
}

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

// Offset of the character that ends just before `end`.
std::size_t PreviousOffset(std::string_view text, std::size_t end) {
  std::size_t offset = end - 1;
  while (offset > 0 && (static_cast<unsigned char>(text[offset]) & 0xC0) == 0x80) --offset;
  return offset;
}

template <typename Predicate>
std::string_view StripWhere(std::string_view text, StripSides sides, Predicate drop) {
  std::size_t begin = 0;
  std::size_t end = text.size();
  if (sides != StripSides::kRight)
    while (begin < end && drop(DecodeCharacter(text, begin))) begin += CharacterBytes(text, begin);
  if (sides != StripSides::kLeft)
    while (end > begin && drop(DecodeCharacter(text, PreviousOffset(text, end))))
      end = PreviousOffset(text, end);
  return text.substr(begin, end - begin);
}

}  // namespace

std::size_t CountCharacters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::size_t CharacterBytes(std::string_view text, std::size_t offset) {
  const auto lead = static_cast<unsigned char>(text[offset]);
  return lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
}

char32_t DecodeCharacter(std::string_view text, std::size_t offset) {
  return StepUtf8(text, offset).code_point;
}

std::vector<std::string_view> Characters(std::string_view text) {
  std::vector<std::string_view> characters;
  characters.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = CharacterBytes(text, i);
    characters.push_back(text.substr(i, length));
    i += length;
  }
  return characters;
}

bool IsSpace(char32_t c) {
  return IsUnicodeSpace(c) || (c >= 28 && c <= 31);  // Python counts four separators in
}

bool IsAlpha(char32_t c) {
  return (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_L_MASK) != 0;
}

bool IsDecimal(char32_t c) {
  return u_charType(static_cast<UChar32>(c)) == U_DECIMAL_DIGIT_NUMBER;
}

bool IsDigit(char32_t c) {
  const int type = u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_NUMERIC_TYPE);
  return type == U_NT_DECIMAL || type == U_NT_DIGIT;
}

bool IsNumeric(char32_t c) {
  return u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_NUMERIC_TYPE) != U_NT_NONE;
}

bool IsUpper(char32_t c) {
  return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_UPPERCASE);
}
bool IsLower(char32_t c) {
  return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_LOWERCASE);
}
bool IsTitle(char32_t c) {
  return u_istitle(static_cast<UChar32>(c));
}

bool IsPrintable(char32_t c) {
  if (c == ' ') return true;
  constexpr std::uint32_t kHidden = U_GC_C_MASK | U_GC_Z_MASK;
  return (U_GET_GC_MASK(static_cast<UChar32>(c)) & kHidden) == 0;
}

std::string ToUpper(std::string_view text) {
  if (IsAscii(text)) {
    std::string out(text);
    for (char& c : out)
      if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
    return out;
  }
  return ToUtf8(FromUtf8(text).toUpper(icu::Locale::getRoot()));
}

std::string ToLower(std::string_view text) {
  if (IsAscii(text)) {
    std::string out(text);
    for (char& c : out)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    return out;
  }
  return ToUtf8(FromUtf8(text).toLower(icu::Locale::getRoot()));
}

std::string CaseFold(std::string_view text) {
  return ToUtf8(FromUtf8(text).foldCase());
}

std::string ToTitleCharacter(std::string_view character) {
  if (IsAscii(character)) return ToUpper(character);
  const char32_t title =
      static_cast<char32_t>(u_totitle(static_cast<UChar32>(DecodeCharacter(character, 0))));
  const std::string upper = ToUpper(character);
  // Characters whose title form is several code points (sharp s): the first one upper, rest lower.
  if (CountCharacters(upper) > 1) {
    const std::size_t first = CharacterBytes(upper, 0);
    return upper.substr(0, first) + ToLower(upper.substr(first));
  }
  std::string out;
  AppendUtf8(static_cast<std::uint32_t>(title), out);
  return out;
}

std::string_view StripSpace(std::string_view text, StripSides sides) {
  return StripWhere(text, sides, IsSpace);
}

std::string_view StripCharacters(std::string_view text, std::string_view characters,
                                 StripSides sides) {
  std::vector<char32_t> set;
  for (const std::string_view c : Characters(characters)) set.push_back(DecodeCharacter(c, 0));
  std::sort(set.begin(), set.end());
  return StripWhere(text, sides,
                    [&set](char32_t c) { return std::binary_search(set.begin(), set.end(), c); });
}

}  // namespace baton::templates
