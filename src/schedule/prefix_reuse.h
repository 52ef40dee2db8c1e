// Which blocks of a sequence may serve another one.
//
// Dense attention gives the same keys and values to the same tokens, whatever else the prompt
// holds. A sparse prefill does not quite: a tile chooses blocks for all its rows together, the last
// tiles of a prompt are dense, and so is what comes after the prompt. So only whole tiles before
// those count as clean, and only a whole number of tiles is reused.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kv/block_layout.h"

namespace baton {

struct PrefixReuse {
  bool is_sparse = false;
  // What is found is cut down to a multiple of it. Units: tokens; a power of two.
  int64_t unit = 1;
  // Tokens from the start of the sequence whose blocks may be published or kept.
  int64_t clean_tokens = std::numeric_limits<int64_t>::max();

  friend bool operator==(const PrefixReuse&, const PrefixReuse&) = default;
};

// What decides it for a sparse prompt.
struct SparsePrompt {
  int64_t num_tokens = 0;      // of the whole prompt
  int64_t tile_positions = 1;  // a power of two
  int64_t last_tiles = 0;      // dense ones at its end
};

// A last tile that the prompt's end cuts is not clean either.
constexpr PrefixReuse ReuseOfSparse(const SparsePrompt& prompt) {
  const int64_t tile = prompt.tile_positions;
  const int64_t whole_tiles = prompt.num_tokens / tile;
  const int64_t num_tiles = (prompt.num_tokens + tile - 1) / tile;
  const int64_t clean_tiles =
      std::max<int64_t>(std::min(whole_tiles, num_tiles - prompt.last_tiles), 0);
  const int64_t unit = std::max<int64_t>(tile, kBlockTokens);
  return {.is_sparse = true, .unit = unit, .clean_tokens = clean_tiles * tile / unit * unit};
}

}  // namespace baton
