// Which blocks of keys a tile of queries keeps: geometry and selection, as plain integers.
//
// Tiles lie on a grid of absolute positions, selection blocks of 64 or 128 tokens likewise, so that
// neither chunks nor batches can move them. Of a tile with the positions a..z:
//
//   low           first block that some row sees         scored_end  blocks below it are complete
//   edge          blocks below it are cut by a window    first       block of a
//   last          block of z
//
// Kept are, of low..last: what the energies choose, the sink, the local window (from window blocks
// before `first` on, `first` included, to `last`), and what lies below `edge`. Dropped blocks lie
// in edge..first-1, so all rows of the tile see them whole: these can be corrected.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/sparse_policy.h"

namespace baton {

// The rows of one tile that a call has.
struct TileRows {
  int64_t first_position = 0;
  int64_t last_position = 0;
  int64_t sliding_window = 0;  // keys a row sees, itself included; 0: all
};

// Block numbers of a tile; see above. Units: blocks of block_tokens.
struct TileBlocks {
  int64_t low = 0;
  int64_t edge = 0;
  int64_t scored_end = 0;
  int64_t first = 0;
  int64_t last = 0;

  int64_t NumCandidates() const { return last - low + 1; }
  // low..scored_end-1 have energies.
  int64_t NumScored() const { return scored_end > low ? scored_end - low : 0; }
};

// Requires: 0 <= first_position <= last_position, block_tokens > 0.
TileBlocks FindTileBlocks(const TileRows& rows, int block_tokens);

// Where a selection is written: block numbers, ascending. Capacity: NumCandidates() each.
struct SelectionLists {
  std::span<int32_t> kept;
  std::span<int32_t> corrected;
  std::span<int32_t> scratch;
};

// How many of each were written.
struct SelectionCounts {
  int64_t kept = 0;
  int64_t corrected = 0;
};

// Chooses the blocks of one tile that is not dense. share: of its head, of kShare.
// energies: [NumScored()] f32, of block low + i. An energy that is not a number is never chosen.
// Threads: any. Memory: allocates nothing.
SelectionCounts SelectBlocks(const SparsePolicy& policy, double share, const TileBlocks& blocks,
                             std::span<const float> energies, const SelectionLists& lists);

// Keeps every candidate.
SelectionCounts KeepAllBlocks(const TileBlocks& blocks, const SelectionLists& lists);

}  // namespace baton
