// str.split and str.rsplit: at a separator or at runs of white space.
#include <algorithm>
#include <limits>

#include "text/template_failure.h"
#include "text/template_methods.h"
#include "text/template_search.h"
#include "text/template_unicode.h"

namespace baton::templates {
namespace {

std::vector<std::string> SplitAtSeparator(Budget& budget, std::string_view text,
                                          const SplitOptions& options) {
  const std::string& separator = *options.separator;
  std::int64_t left =
      options.max_splits < 0 ? std::numeric_limits<std::int64_t>::max() : options.max_splits;
  std::vector<std::string> parts;
  const TextSearch search(budget,
                          {.text = text, .needle = separator, .from_right = options.from_right});
  if (!options.from_right) {
    std::size_t at = 0;
    while (left > 0) {
      const std::size_t found = search.Find(at);
      if (found == TextSearch::kNone) break;
      budget.CheckItems(parts.size() + 2);
      parts.emplace_back(text.substr(at, found - at));
      at = found + separator.size();
      --left;
    }
    parts.emplace_back(text.substr(at));
    return parts;
  }
  std::size_t end = text.size();
  while (left > 0) {
    const std::size_t found = search.Find(end);
    if (found == TextSearch::kNone) break;
    budget.CheckItems(parts.size() + 2);
    parts.emplace_back(text.substr(found + separator.size(), end - found - separator.size()));
    end = found;
    --left;
  }
  parts.emplace_back(text.substr(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string> SplitAtSpace(const Budget& budget, std::string_view text,
                                      const SplitOptions& options) {
  std::int64_t left =
      options.max_splits < 0 ? std::numeric_limits<std::int64_t>::max() : options.max_splits;
  const StripSides outer = options.from_right ? StripSides::kRight : StripSides::kLeft;
  std::vector<std::string> parts;
  text = StripSpace(text, outer);
  while (!text.empty()) {
    budget.CheckItems(parts.size() + 1);
    if (left-- <= 0) {
      // The rest keeps its blanks, those at its far end included.
      parts.emplace_back(text);
      break;
    }
    if (options.from_right) {
      std::size_t begin = text.size();
      while (begin > 0) {
        std::size_t previous = begin - 1;
        while (previous > 0 && (static_cast<unsigned char>(text[previous]) & 0xC0) == 0x80)
          --previous;
        if (IsSpace(DecodeCharacter(text, previous))) break;
        begin = previous;
      }
      parts.emplace_back(text.substr(begin));
      text = StripSpace(text.substr(0, begin), outer);
    } else {
      std::size_t end = 0;
      while (end < text.size() && !IsSpace(DecodeCharacter(text, end)))
        end += CharacterBytes(text, end);
      parts.emplace_back(text.substr(0, end));
      text = StripSpace(text.substr(end), outer);
    }
  }
  if (options.from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

std::vector<std::string> SplitText(Evaluation& evaluation, std::string_view text,
                                   const SplitOptions& options) {
  if (options.separator != nullptr && options.separator->empty()) Raise("empty separator");
  Budget& budget = evaluation.budget();
  budget.ChargeBytes(text.size());
  std::vector<std::string> parts = options.separator == nullptr
                                       ? SplitAtSpace(budget, text, options)
                                       : SplitAtSeparator(budget, text, options);
  budget.ChargeItems(parts.size());
  return parts;
}

}  // namespace baton::templates
