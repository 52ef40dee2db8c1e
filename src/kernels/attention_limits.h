// Constants of attention, without the standard library: the public headers and the units that are
// compiled once per instruction set share them.
#pragma once

#include "tensor/kv_record.h"

namespace baton {

// Keys of one segment. A constant of the numerics, not a tuning value.
inline constexpr int kSegmentTokens = 1024;
inline constexpr int kSegmentBlocks = kSegmentTokens / kBlockTokens;
static_assert(kSegmentBlocks * kBlockTokens == kSegmentTokens);

// Rows that pass over a block of keys together: what the registers hold. Changes no result.
inline constexpr int kGroupRows = 6;

}  // namespace baton
