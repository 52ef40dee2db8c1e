// Whole numbers read from text, as options, policies and lists of lengths have them.
//
// A whole number is decimal digits with a '-' in front or not, and nothing else: no '+', no blank,
// no point, no comma between groups.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace baton {

// What became of reading a number from a text.
enum class NumberReading {
  kNumber,
  kBeyond,  // a number that the type cannot hold
  kNone,    // no number
};

// Whether the text has the form of a whole number, of any size.
bool IsWhole(std::string_view text);

// Reads all of a text; what is no number, or one beyond the type, leaves `number` as it was. A type
// without a sign holds nothing that begins with '-'.
template <std::integral T>
NumberReading ReadWhole(std::string_view text, T& number) {
  const char* const end = text.data() + text.size();
  T value = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) {
    return IsWhole(text) ? NumberReading::kBeyond : NumberReading::kNone;
  }
  number = value;
  return NumberReading::kNumber;
}

// Both ends are in it.
struct IntegerRange {
  int64_t min = 0;
  int64_t max = 0;
};

// All of a text as a whole number in the range; nothing for what is no number or not in it. Who
// asks says in the error what the range is.
std::optional<int64_t> WholeIn(std::string_view text, IntegerRange range);

}  // namespace baton
