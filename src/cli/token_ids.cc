#include "cli/token_ids.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "base/whole_number.h"
#include "cli/printable.h"

namespace baton {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";
constexpr int64_t kMaxId = std::numeric_limits<TokenId>::max();

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Digits only, and no zero in front of others.
std::optional<TokenId> ParseTokenId(std::string_view text) {
  const bool has_digit = !text.empty() && text[0] >= '0' && text[0] <= '9';
  if (!has_digit || (text[0] == '0' && text.size() > 1)) return std::nullopt;
  const std::optional<int64_t> number = WholeIn(text, {.min = 0, .max = kMaxId});
  if (!number.has_value()) return std::nullopt;
  return static_cast<TokenId>(*number);
}

tl::unexpected<Error> NoId(std::string_view text, size_t place) {
  return Fail(
      ErrorCode::kInvalid,
      fmt::format("'{}' (number {} of the list) is no token id; ids are whole numbers from 0",
                  Printable(text, 40), place));
}

// "1, 2": one comma between two numbers, blanks anywhere around them.
Result<std::vector<TokenId>> ParseBetweenCommas(std::string_view list) {
  std::vector<TokenId> ids;
  size_t begin = 0;
  while (begin <= list.size()) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view part = Trim(list.substr(begin, end - begin));
    const std::optional<TokenId> id = ParseTokenId(part);
    if (!id.has_value()) return NoId(part, ids.size() + 1);
    ids.push_back(*id);
    begin = end + 1;
  }
  return ids;
}

Result<std::vector<TokenId>> ParseBetweenBlanks(std::string_view list) {
  std::vector<TokenId> ids;
  size_t begin = 0;
  while (begin < list.size()) {
    const size_t end = std::min(list.find_first_of(kBlanks, begin), list.size());
    const std::string_view part = list.substr(begin, end - begin);
    const std::optional<TokenId> id = ParseTokenId(part);
    if (!id.has_value()) return NoId(part, ids.size() + 1);
    ids.push_back(*id);
    begin = std::min(list.find_first_not_of(kBlanks, end), list.size());
  }
  return ids;
}

Result<std::vector<TokenId>> ParseList(std::string_view list) {
  if (!list.starts_with('[')) return ParseBetweenBlanks(list);
  if (list.size() < 2 || !list.ends_with(']')) {
    return Fail(ErrorCode::kInvalid,
                "the list of ids has no ']' at its end; ids are whole numbers from 0");
  }
  const std::string_view inside = Trim(list.substr(1, list.size() - 2));
  if (inside.empty()) return std::vector<TokenId>();
  return ParseBetweenCommas(inside);
}

}  // namespace

Result<std::vector<TokenId>> ParseTokenIds(std::string_view text, std::string_view name) {
  Result<std::vector<TokenId>> ids = ParseList(Trim(text));
  if (ids) return ids;
  return Fail(ids.error().code, fmt::format("{}: {}, between blanks or in a JSON list like [1, 2]",
                                            name, ids.error().message));
}

Result<std::vector<TokenId>> ParseTokenIdOption(std::string_view text) {
  Result<std::vector<TokenId>> ids = ParseBetweenCommas(text);
  if (ids) return ids;
  return Fail(ids.error().code, ids.error().message + ", with commas between them");
}

Result<> CheckTokenIds(const std::vector<TokenId>& ids, int64_t vocab_size, std::string_view name) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab_size) continue;
    return Fail(ErrorCode::kInvalid,
                fmt::format("{}: {} (number {} of the list) is no token of this model; its ids go "
                            "from 0 to {}",
                            name, ids[i], i + 1, vocab_size - 1));
  }
  return {};
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
    const std::optional<int64_t> first = WholeIn(part.substr(0, dash), range);
    const std::optional<int64_t> last =
        dash == part.npos ? first : WholeIn(part.substr(dash + 1), range);
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
