// UTF-8 and the little of Unicode that tokenizers need: stepping, validity, repair, NFC.
//
// "Ill-formed" is Unicode's word for bytes that are not UTF-8; they are never an error here. A
// "maximal subpart" is the longest start of a character that is there (Unicode, section 3.9), the
// unit that one U+FFFD replaces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace baton {

// One step through a text.
struct Utf8Step {
  uint32_t code_point = 0;  // U+FFFD if ill-formed
  size_t length = 0;        // bytes of the character, or of the ill-formed maximal subpart
  bool valid = false;
};

// The character, or the ill-formed maximal subpart, that starts at text[position].
// Requires: position < text.size().
Utf8Step StepUtf8(std::string_view text, size_t position);

// Appends the UTF-8 form of a code point.
// Requires: code_point is a Unicode scalar value (no surrogate, at most 10FFFF).
void AppendUtf8(uint32_t code_point, std::string& out);

// The length of the longest valid start of the text, cut at a character.
size_t ValidUtf8PrefixLength(std::string_view text);

// Whether the whole text is valid UTF-8.
bool IsValidUtf8(std::string_view text);

// How many bytes at the end of the text are the start of a character whose rest is missing: 0 to 3.
size_t IncompleteUtf8TailLength(std::string_view text);

// The text with one U+FFFD in place of every ill-formed maximal subpart.
std::string ReplaceInvalidUtf8(std::string_view text);

// Whether the code point has the Unicode property White_Space.
bool IsUnicodeSpace(uint32_t code_point);

// The text in Unicode normalisation form C (canonical composition).
// Requires: text is valid UTF-8.
// Errors: internal, if the Unicode library fails.
// Threads: may be called from any thread.
Result<std::string> NormalizeNfc(std::string_view text);

}  // namespace baton
