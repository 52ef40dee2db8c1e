#include "cli/option_names.h"

#include <algorithm>

#include "cli/printable.h"

namespace baton {

std::vector<std::string> NamesOf(const OptionText& text) {
  const std::string& names = text.names;
  std::vector<std::string> split;
  size_t begin = 0;
  while (begin <= names.size()) {
    const size_t end = std::min(names.find(',', begin), names.size());
    split.push_back(names.substr(begin, end - begin));
    begin = end + 1;
  }
  return split;
}

bool HasName(const OptionText& text, std::string_view name) {
  const std::vector<std::string> names = NamesOf(text);
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string SpokenName(const OptionText& text, const std::string& given) {
  if (given.starts_with("--")) return given;
  const std::vector<std::string> names = NamesOf(text);
  const auto is_long = [](const std::string& name) { return name.starts_with("--"); };
  const auto found = std::find_if(names.begin(), names.end(), is_long);
  return found == names.end() ? names.front() : *found;
}

std::string ShownValue(std::string_view value) {
  constexpr size_t kMaxBytes = 60;
  return Printable(value, kMaxBytes);
}

}  // namespace baton
