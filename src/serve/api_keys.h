// Who may use the server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/http_message.h"

namespace baton {

// How two texts differ: 0 only if they are equal. Looks at every byte of the longer one, whatever
// is found. `Text` is indexed like a string, so that a test can count.
template <typename Text>
uint32_t DifferenceOf(const Text& given, const Text& key) {
  const size_t longer = given.size() > key.size() ? given.size() : key.size();
  uint32_t difference = given.size() == key.size() ? 0U : 1U;
  for (size_t i = 0; i < longer; ++i) {
    const auto a = static_cast<unsigned char>(i < given.size() ? given[i] : char{0});
    const auto b = static_cast<unsigned char>(i < key.size() ? key[i] : char{0});
    difference |= static_cast<uint32_t>(a ^ b);
  }
  return difference;
}

// Whether the text is one of the keys. Looks at all of them, whatever is found.
template <typename Text>
bool IsAnyOf(const Text& given, const std::vector<Text>& keys) {
  uint32_t found = 0;
  for (const Text& key : keys) found |= DifferenceOf(given, key) == 0 ? 1U : 0U;
  return found != 0;
}

// The keys of a file's text: one a line, without the blanks around it; empty lines and lines that
// begin with '#' are none. Errors: invalid (no key, one with characters that no header can have).
Result<std::vector<std::string>> ParseApiKeys(std::string_view text);

// Whether a request brings one of the keys, in its one Authorization field, as a bearer's token.
// No keys: everybody may.
bool IsAuthorized(const HttpRequest& request, const std::vector<std::string>& keys);

}  // namespace baton
