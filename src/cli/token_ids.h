// Token ids as commands read them.
#pragma once

#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace baton {

// Reads the ids of a file: a JSON list, "[1, 2]", or numbers between blanks and line ends, "1 2".
// Each is written the shortest way: "7", not "007". `name` is for messages.
// Errors: invalid, with the place of what is not one or does not fit an id.
Result<std::vector<TokenId>> ParseTokenIds(std::string_view text, std::string_view name);

// Reads the ids of an option: "1,2". Errors: as above, without a name.
Result<std::vector<TokenId>> ParseTokenIdOption(std::string_view text);

// Whether all ids are in a vocabulary of this size. Errors: invalid, with the place of the first
// that is not.
Result<> CheckTokenIds(const std::vector<TokenId>& ids, int64_t vocab_size, std::string_view name);

// Reads a list of positions: "0,5,10-20". Rising or not, doubles allowed.
// Errors: invalid (not of this form, over max_count numbers, or not below `end`).
struct PositionListLimits {
  int64_t end = 0;
  int64_t max_count = 0;
};
Result<std::vector<int64_t>> ParsePositions(std::string_view text,
                                            const PositionListLimits& limits);

}  // namespace baton
