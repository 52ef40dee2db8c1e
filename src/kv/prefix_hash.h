// Names of blocks by their content: a hash chained over the tokens from the start of the sequence.
//
// The K and V of a block are a function of all tokens up to its end, so its name covers them all,
// and a root that stands for what else the bits depend on.
#pragma once

#include <span>

#include "base/hash.h"
#include "base/ids.h"
#include "tensor/kv_record.h"

namespace baton {

// The tokens of one block.
using BlockTokens = std::span<const TokenId, kBlockTokens>;

// What goes before the first block. `key` is of model, policy and versions; `salt` keeps sequences
// apart that must not share: requests with different salts never see each other's blocks.
Hash128 PrefixRoot(const Hash128& key, const Hash128& salt);

// The name of the block with these tokens that follows the block (or root) of name `before`.
// Memory: allocates nothing.
Hash128 ChainHash(const Hash128& before, BlockTokens tokens);

}  // namespace baton
