// The tables that the *_isa.cc files of the linear kernels define, one file for a few types each.
#pragma once

#include "kernels/f32x16.h"
#include "kernels/linear_ops.h"

namespace baton::BATON_ISA {

extern const QuantizeRowFn kQuantizeRow[kNumPrecisions];
extern const LinearTiles kTilesQ4_0;
extern const LinearTiles kTilesQ4_1;
extern const LinearTiles kTilesQ5_0;
extern const LinearTiles kTilesQ5_1;
extern const LinearTiles kTilesQ8_0;
extern const LinearTiles kTilesQ2_K;
extern const LinearTiles kTilesQ3_K;
extern const LinearTiles kTilesQ4_K;
extern const LinearTiles kTilesQ5_K;
extern const LinearTiles kTilesQ6_K;
extern const LinearTiles kTilesF16;
extern const LinearTiles kTilesBF16;
extern const LinearTiles kTilesF32;

}  // namespace baton::BATON_ISA
