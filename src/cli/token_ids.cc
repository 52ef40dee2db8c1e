#include "cli/token_ids.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "cli/option_set.h"
#include "cli/printable.h"

namespace baton {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";
constexpr int64_t kMaxId = std::numeric_limits<TokenId>::max();

// The next number of [begin, end) and what follows it.
struct NumberAt {
  int64_t number = -1;
  size_t end = 0;
};

NumberAt ReadNumber(std::string_view text, size_t begin) {
  size_t end = begin;
  while (end < text.size() && text[end] != ',' && kBlanks.find(text[end]) == kBlanks.npos) ++end;
  const std::optional<int64_t> number =
      ParseInteger(text.substr(begin, end - begin), {.min = 0, .max = kMaxId});
  return {.number = number.value_or(-1), .end = end};
}

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

}  // namespace

Result<std::vector<TokenId>> ParseTokenIds(std::string_view text, std::string_view name) {
  std::string_view list = Trim(text);
  if (list.starts_with('[')) {
    if (!list.ends_with(']')) {
      return Fail(ErrorCode::kInvalid, fmt::format("{}: the list of ids has no ']'", name));
    }
    list = list.substr(1, list.size() - 2);
  }
  std::vector<TokenId> ids;
  bool comma_allowed = false;
  size_t position = 0;
  while (true) {
    position = std::min(list.find_first_not_of(kBlanks, position), list.size());
    if (position == list.size()) break;
    if (list[position] == ',' && comma_allowed) {
      comma_allowed = false;
      ++position;
      continue;
    }
    const NumberAt read = ReadNumber(list, position);
    if (read.number < 0) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("{}: '{}' (number {} of the list) is no token id; ids are whole "
                              "numbers from 0",
                              name, Printable(list.substr(position, read.end - position), 40),
                              ids.size() + 1));
    }
    ids.push_back(static_cast<TokenId>(read.number));
    position = read.end;
    comma_allowed = true;
  }
  return ids;
}

Result<std::vector<int64_t>> ParsePositions(std::string_view text,
                                            const PositionListLimits& limits) {
  std::vector<int64_t> positions;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    const size_t dash = part.find('-');
    const IntegerRange range = {.min = 0, .max = limits.end - 1};
    const std::optional<int64_t> first = ParseInteger(part.substr(0, dash), range);
    const std::optional<int64_t> last =
        dash == part.npos ? first : ParseInteger(part.substr(dash + 1), range);
    if (!first.has_value() || !last.has_value() || *last < *first) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("'{}' is no position and no range of positions; they go from 0 to {}",
                              Printable(part, 40), limits.end - 1));
    }
    if (*last - *first >= limits.max_count - static_cast<int64_t>(positions.size())) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("the list names more than {} positions", limits.max_count));
    }
    for (int64_t position = *first; position <= *last; ++position) positions.push_back(position);
    begin = end + 1;
  }
  return positions;
}

}  // namespace baton
