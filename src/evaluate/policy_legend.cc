#include "evaluate/policy_legend.h"

#include <fmt/format.h>

#include "base/wrapped_text.h"

namespace baton {

std::string PolicyLetter(size_t index) {
  std::string letters;
  for (size_t rest = index + 1; rest > 0; rest = (rest - 1) / 26) {
    letters.insert(letters.begin(), static_cast<char>('A' + (rest - 1) % 26));
  }
  return letters;
}

std::string LegendText(const std::vector<std::string>& names, size_t columns) {
  if (names.empty()) return {};
  const size_t letters = PolicyLetter(names.size() - 1).size();
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    text += fmt::format("{:<{}}  {}\n", PolicyLetter(i), letters,
                        WrapWords(names[i], {.columns = columns, .indent = letters + 2}));
  }
  return text;
}

}  // namespace baton
