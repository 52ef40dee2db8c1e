// What a block-sparse prefill keeps: the policy, as plain data.
//
// A policy is part of the name of an answer: two that differ give different bits, so its text goes
// into cache keys and reports. What the words mean is defined in docs/numerics.md.
// Units: sink and window in tokens, the tail in tiles, a tile in positions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace baton {

// How the blocks of a tile are chosen among those that no other rule keeps or hides.
enum class SelectionRule {
  kThreshold,  // energy >= alpha * the largest energy of the tile
  kShare,      // a fixed share of them, the largest energies first
  kAll,        // every one: attention is dense
  kNone,       // none: sink, window and tail alone
};

// What orders the blocks of a tile where the rule chooses by energy. The last two are yardsticks.
enum class BlockEnergy {
  kEstimates,  // how their estimates answer the tile's queries
  kRandom,     // chance: what any order must beat
  kTrue,       // the largest share of any row's weight: a ceiling, at the price of dense attention
};

// What stands for a block that is not read.
enum class BlockEstimate {
  kMean,  // the mean of its keys and of its values
  kFar,   // the keys farthest from the mean by themselves, and the mean of the rest
};

// A KV head that stays dense.
struct DenseHead {
  int layer = 0;
  int kv_head = 0;

  friend auto operator<=>(const DenseHead&, const DenseHead&) = default;
};

// The share of a layer's heads, or of one of them, in place of the rule's.
struct OwnShare {
  int layer = 0;
  int kv_head = -1;  // -1: all
  double share = 0;  // in [0, 1]

  friend bool operator==(const OwnShare&, const OwnShare&) = default;
};

inline constexpr int kMaxTilePositions = 512;

struct SparsePolicy {
  SelectionRule rule = SelectionRule::kThreshold;
  float alpha = 0.1f;   // of kThreshold; above 1 nothing is chosen
  double share = 0.15;  // of kShare, in (0, 1]
  int min_blocks = 1;   // of kShare: so many at least, if there are so many

  BlockEstimate estimate = BlockEstimate::kMean;
  int num_estimates = 4;  // of kFar, per 64 tokens: 2..8, the mean of the rest included
  BlockEnergy energy = BlockEnergy::kEstimates;
  uint64_t energy_seed = 0;  // of kRandom

  int block_tokens = 64;          // 64 or 128: what is kept or not
  int tile_positions = 0;         // a power of two; 0: by the group size, see TilePositions
  int64_t sink_tokens = 256;      // kept at the start
  int64_t window_tokens = 512;    // kept before the tile, its own block included
  int64_t last_tiles = 8;         // dense ones at the end of the prompt
  bool has_correction = true;     // dropped blocks add their estimates
  int64_t min_prompt_tokens = 0;  // prompts that are not longer are dense

  bool has_sparse_windows = false;  // whether layers with a sliding window are sparse, too
  std::vector<int> dense_layers = {};
  std::vector<DenseHead> dense_heads = {};
  std::vector<OwnShare> shares = {};  // of kShare; a head's goes before its layer's

  friend bool operator==(const SparsePolicy&, const SparsePolicy&) = default;
};

// Errors: invalid; the message names field, value and range.
Result<> ValidatePolicy(const SparsePolicy& policy);

// What of a model a policy refers to.
struct PolicyModel {
  int num_layers = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
};

// Also checks that the model has the layers and heads that the policy names.
// Errors: invalid, as above.
Result<> ValidatePolicyFor(const SparsePolicy& policy, const PolicyModel& model);

// Positions of a tile: those of the policy, or the largest power of two with at most 128 rows of
// all heads of a group. Requires: a valid policy, group_size >= 1.
int TilePositions(const SparsePolicy& policy, int group_size);

// Whether the rule asks for energies.
bool ChoosesByEnergy(const SparsePolicy& policy);

// Whether the policy keeps this head dense whatever the prompt.
// Threads: any. Memory: allocates nothing.
bool IsDenseHead(const SparsePolicy& policy, const DenseHead& head);

// The share of its optional blocks that a head keeps under kShare.
// Threads: any. Memory: allocates nothing.
double ShareOfHead(const SparsePolicy& policy, const DenseHead& head);

// One line that is equal for two policies exactly if they keep the same blocks: fields in a fixed
// order, lists sorted, without what the chosen rule and estimate do not use.
std::string PolicyText(const SparsePolicy& policy);

}  // namespace baton
