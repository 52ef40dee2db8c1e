// Identifiers that cross folders.
#pragma once

#include <compare>
#include <cstdint>
#include <ostream>

namespace baton {

// A token of the model's vocabulary, from 0. Negative values never name a token.
using TokenId = int32_t;

// A block of the KV pool: 64 tokens of all layers and KV heads. A type of its own, because a block
// id and a block's place in a sequence are easily confused.
struct BlockId {
  int32_t index = -1;

  friend auto operator<=>(BlockId, BlockId) = default;
  friend std::ostream& operator<<(std::ostream& out, BlockId id) { return out << '#' << id.index; }
};

}  // namespace baton
