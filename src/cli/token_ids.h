// Token ids as commands read them.
#pragma once

#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace baton {

// Reads a JSON list of whole numbers, or whole numbers between blanks or commas; `name` is for
// messages. Errors: invalid, with the place of what is not one or does not fit an id.
Result<std::vector<TokenId>> ParseTokenIds(std::string_view text, std::string_view name);

// Reads a list of positions: "0,5,10-20". Rising or not, doubles allowed.
// Errors: invalid (not of this form, over max_count numbers, or not below `end`).
struct PositionListLimits {
  int64_t end = 0;
  int64_t max_count = 0;
};
Result<std::vector<int64_t>> ParsePositions(std::string_view text,
                                            const PositionListLimits& limits);

}  // namespace baton
