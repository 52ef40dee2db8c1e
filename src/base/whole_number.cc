#include "base/whole_number.h"

namespace baton {

bool IsWhole(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<int64_t> WholeIn(std::string_view text, IntegerRange range) {
  int64_t number = 0;
  if (ReadWhole(text, number) != NumberReading::kNumber) return std::nullopt;
  if (number < range.min || number > range.max) return std::nullopt;
  return number;
}

}  // namespace baton
