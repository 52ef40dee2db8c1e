#include "kv/prefix_hash.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace baton {
namespace {

template <typename T>
Hash128 HashOfObject(const T& object) {
  static_assert(std::has_unique_object_representations_v<T>, "padding must not be hashed");
  return ContentHash(std::as_bytes(std::span(&object, 1)));
}

}  // namespace

Hash128 PrefixRoot(const Hash128& key, const Hash128& salt) {
  return HashOfObject(std::array{key, salt});
}

Hash128 ChainHash(const Hash128& before, BlockTokens tokens) {
  struct Link {
    Hash128 before;
    std::array<TokenId, kBlockTokens> tokens;
  };
  Link link{.before = before, .tokens = {}};
  std::copy(tokens.begin(), tokens.end(), link.tokens.begin());
  return HashOfObject(link);
}

}  // namespace baton
