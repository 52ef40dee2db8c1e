// Energies by chance: a yardstick for whatever chooses blocks.
#pragma once

#include <cstdint>

#include "base/rng.h"

namespace baton {

// A block as one tile sees it.
struct EnergyPlace {
  uint64_t seed = 0;
  int layer = 0;  // below 65,536, and so is kv_head
  int kv_head = 0;
  int64_t tile = 0;   // on the absolute grid; below 2^31, and so is block
  int64_t block = 0;  // selection block
};

// In [0, 1], uniform and independent from place to place; nothing else changes it.
inline float RandomEnergy(const EnergyPlace& place) {
  const uint64_t position = static_cast<uint64_t>(place.layer) << 48 |
                            static_cast<uint64_t>(place.kv_head) << 32 |
                            static_cast<uint64_t>(place.tile);
  return static_cast<float>(UniformAt(
      {.seed = place.seed, .position = position, .draw = static_cast<uint32_t>(place.block)}));
}

}  // namespace baton
