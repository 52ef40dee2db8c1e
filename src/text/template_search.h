// Finds one text in another in linear time, whatever the texts are (Knuth, Morris, Pratt).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/template_budget.h"

namespace baton::templates {

class TextSearch {
 public:
  static constexpr std::size_t kNone = std::string_view::npos;

  struct Question {
    std::string_view text;
    std::string_view needle;
    bool from_right = false;
  };

  // Charges one walk through text and needle; matches that do not overlap cost no more together.
  // Memory: both texts must outlive the search; four bytes per byte of a needle that fits in.
  // Errors: throws TemplateFailure(kExhausted).
  TextSearch(Budget& budget, const Question& question);

  // From the left: the start of the first match at or behind `place`. From the right: the start of
  // the last match that ends at or before `place`. Else kNone.
  std::size_t Find(std::size_t place) const;

 private:
  char NeedleAt(std::size_t i) const {
    return question_.needle[question_.from_right ? question_.needle.size() - 1 - i : i];
  }

  Question question_;
  // By i: how many bytes at the start of the needle (as it is walked) end its first i + 1, too.
  std::vector<std::uint32_t> borders_;
};

}  // namespace baton::templates
