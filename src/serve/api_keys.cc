#include "serve/api_keys.h"

#include <fmt/format.h>

#include <algorithm>

namespace baton {
namespace {

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

}  // namespace

Result<std::vector<std::string>> ParseApiKeys(std::string_view text) {
  std::vector<std::string> keys;
  int64_t line_number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = Trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line_number;
    if (line.empty() || line.front() == '#') continue;
    const bool printable =
        std::all_of(line.begin(), line.end(), [](char c) { return c > ' ' && c < 0x7f; });
    if (!printable) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("line {} of the key file: a key has visible ASCII characters only",
                              line_number));
    }
    keys.emplace_back(line);
  }
  if (keys.empty()) return Fail(ErrorCode::kInvalid, "the key file has no key");
  return keys;
}

bool IsAuthorized(const HttpRequest& request, const std::vector<std::string>& keys) {
  if (keys.empty()) return true;
  if (request.CountFields("Authorization") != 1) return false;
  const std::string_view value = *request.Field("Authorization");
  const size_t blank = value.find(' ');
  if (blank == std::string_view::npos || !EqualFold(value.substr(0, blank), "Bearer")) return false;
  const std::string given(value.substr(blank + 1));
  return IsAnyOf(given, keys);
}

}  // namespace baton
