// Which blocks a sparse prefill keeps, by layer and KV head, and block by block for one of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/loaded_model.h"
#include "evaluate/divergence.h"
#include "kernels/attention_prefill_sparse.h"
#include "kernels/sparse_policy.h"

namespace baton {

// What one tile kept. Units: positions and selection blocks.
struct KeptTile {
  int64_t first_position = 0;
  int64_t last_position = 0;
  TileBlocks blocks;
  bool is_dense = false;
  std::vector<int32_t> kept;  // ascending
};

// All tiles of one layer and KV head, by position.
struct KeptMap {
  int layer = 0;
  int kv_head = 0;
  std::vector<KeptTile> tiles;
};

struct DensityOptions {
  SparsePolicy policy;
  std::optional<DenseHead> map = std::nullopt;  // the layer and KV head of the map
};

struct DensityResult {
  std::vector<std::vector<BlockCounts>> counts;  // [layers][kv_heads]
  std::optional<KeptMap> map;
  PrefillReport report;
};

// Reads the tokens once. Errors: invalid (no tokens, a policy or a map that the model cannot have),
// exhausted, cancelled. Threads: alone with the model.
Result<DensityResult> MeasureDensity(LoadedModel& model, std::span<const TokenId> tokens,
                                     const DensityOptions& options, const TokenProgress& progress,
                                     const std::atomic<bool>& cancel);

}  // namespace baton
