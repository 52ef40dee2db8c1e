// The functions of one instruction set behind kernels/linear.h: raw pointers, no checks.
#pragma once

#include <cstdint>

#include "kernels/panel.h"
#include "kernels/precision.h"

namespace baton {

// Rows are worked on in tiles of at most this many.
inline constexpr int kLinearTileRows = 16;
// With so many tiles for each thread, each takes a run of rows, where inputs are made as where they
// are multiplied: then rows stay with a thread from step to step.
inline constexpr int64_t kTilesPerThread = 4;
// A tile has 1, 2, 4, 8 or 16 rows; others are filled up with rows of zeros.
inline constexpr int kNumTileSizes = 5;
constexpr int TileSizeIndex(int rows) {
  return rows <= 1 ? 0 : rows <= 2 ? 1 : rows <= 4 ? 2 : rows <= 8 ? 3 : 4;
}
constexpr int PaddedTileRows(int rows) {
  return 1 << TileSizeIndex(rows);
}

// One row of inputs to be quantized into its place in a tile. What belongs to one block of 32
// inputs lies together for all rows of the tile, so each pointer moves on by `tile_rows` times its
// size.
struct QuantizeRowArgs {
  const float* row;  // [num_inputs]; null for a row of zeros
  int64_t num_inputs;
  int64_t tile_rows;
  uint8_t* codes;                  // [32] or, exact, [64] bytes per block; null: no codes wanted
  float* scales;                   // one per block
  uint32_t* sides[kNumSideKinds];  // SideValues(kind) per block; null where not wanted
  float* floats;                   // one per input; null if not wanted
};

// One panel times one tile of rows.
struct LinearTileArgs {
  const uint8_t* panel;
  int64_t num_inputs;
  int tile_rows;         // 1, 2, 4, 8 or 16
  const uint8_t* codes;  // [block][tile row][32 or 64]; of float types unused
  const float* scales;   // [block][tile row]
  const uint32_t* side;  // [block][tile row][1 or 2], of the type's kind
  const float* floats;   // [input][tile row]; of quantized types unused
  float* out;            // the panel's first output of the tile's first row
  int64_t out_stride;    // floats from row to row
  int num_rows;          // rows to store, at most those of the tile
  int num_outputs;       // outputs to store, at most 16
};

// Whole panels beside each other times many rows, in whole tiles. Policy kFast, or float weights:
// under kExact a tile at a time is as fast.
struct LinearManyArgs {
  const uint8_t* const* panels;  // LinearMany::panels of them
  int64_t num_inputs;
  const uint8_t* codes;  // of the first tile; the others follow: [tile][block][16][32]
  const float* scales;   // [tile][block][16]
  const uint32_t* side;  // [tile][block][16][1 or 2]
  const float* floats;   // [tile][input][16]
  int64_t num_rows;      // a multiple of kLinearTileRows
  float* out;            // the first panel's first output of the first row
  int64_t out_stride;    // floats from row to row
};

using QuantizeRowFn = void (*)(const QuantizeRowArgs&);
using LinearTileFn = void (*)(const LinearTileArgs&);
using LinearManyFn = void (*)(const LinearManyArgs&);

// The functions of one weight type.
struct TilesBySize {
  LinearTileFn by_size[kNumTileSizes];  // by TileSizeIndex
};
struct LinearMany {
  int panels;                // at once; 0: there is no such function
  int64_t near_cache_bytes;  // inputs of the rows of one call shall not take more
  LinearManyFn multiply;
};
struct LinearKernels {
  TilesBySize by_precision[kNumPrecisions];
  LinearMany many;
};

struct LinearOps {
  const QuantizeRowFn* quantize_row;             // by precision
  const LinearKernels* kernels[kNumPanelTypes];  // by PanelType
};

namespace portable {
extern const LinearOps kLinearOps;
}
namespace avx2 {
extern const LinearOps kLinearOps;
}
namespace avx_vnni {
extern const LinearOps kLinearOps;
}
namespace avx512 {
extern const LinearOps kLinearOps;
}

}  // namespace baton
