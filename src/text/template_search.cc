#include "text/template_search.h"

namespace baton::templates {

TextSearch::TextSearch(Budget& budget, const Question& question) : question_(question) {
  const std::size_t size = question_.needle.size();
  budget.ChargeSteps(question_.text.size() / 64);
  if (size > question_.text.size()) return;
  budget.ChargeSteps(size / 64);
  borders_.resize(size);
  std::uint32_t matched = 0;
  for (std::size_t i = 1; i < size; ++i) {
    while (matched > 0 && NeedleAt(i) != NeedleAt(matched)) matched = borders_[matched - 1];
    if (NeedleAt(i) == NeedleAt(matched)) ++matched;
    borders_[i] = matched;
  }
}

std::size_t TextSearch::Find(std::size_t place) const {
  const std::string_view text = question_.text;
  const std::size_t size = question_.needle.size();
  if (place > text.size() || size > text.size()) return kNone;
  if (size == 0) return place;
  const std::size_t most = question_.from_right ? place : text.size() - place;
  std::size_t matched = 0;
  for (std::size_t i = 0; i < most; ++i) {
    const char c = text[question_.from_right ? place - 1 - i : place + i];
    while (matched > 0 && NeedleAt(matched) != c) matched = borders_[matched - 1];
    if (NeedleAt(matched) == c) ++matched;
    if (matched == size) return question_.from_right ? place - 1 - i : place + i + 1 - size;
  }
  return kNone;
}

}  // namespace baton::templates
