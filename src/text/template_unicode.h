// Python's view of text: strings as sequences of code points. All texts must be valid UTF-8
// (text/unicode.h has what does not mind).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace baton::templates {

std::size_t CountCharacters(std::string_view text);
// Bytes of the character that begins at `offset`.
std::size_t CharacterBytes(std::string_view text, std::size_t offset);
char32_t DecodeCharacter(std::string_view text, std::size_t offset);
std::vector<std::string_view> Characters(std::string_view text);

// str.isspace, str.isalpha, ... of one code point.
bool IsSpace(char32_t c);
bool IsAlpha(char32_t c);
bool IsDecimal(char32_t c);
bool IsDigit(char32_t c);
bool IsNumeric(char32_t c);
bool IsUpper(char32_t c);
bool IsLower(char32_t c);
bool IsTitle(char32_t c);
// Whether repr() prints the character as it is.
bool IsPrintable(char32_t c);

// Full case mapping of Unicode, in no particular language.
std::string ToUpper(std::string_view text);
std::string ToLower(std::string_view text);
std::string CaseFold(std::string_view text);
// The title-case form of one character (may be several code points).
std::string ToTitleCharacter(std::string_view character);

enum class StripSides { kBoth, kLeft, kRight };
// str.strip() without an argument: white space in Unicode's sense.
std::string_view StripSpace(std::string_view text, StripSides sides);
// str.strip(characters): any of the given code points.
std::string_view StripCharacters(std::string_view text, std::string_view characters,
                                 StripSides sides);

}  // namespace baton::templates
