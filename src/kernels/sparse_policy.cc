#include "kernels/sparse_policy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/sparse_policy_limits.h"
#include "tensor/kv_record.h"

namespace baton {
namespace {

// Rows of a tile when the policy leaves its size open.
constexpr int kTileRows = 128;

Result<> CheckRange(std::string_view field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return {};
  return Fail(ErrorCode::kInvalid, fmt::format("the sparse policy's {} must be in {}..{}, got {}",
                                               field, low, high, value));
}

Result<> ValidateRule(const SparsePolicy& policy) {
  if (policy.rule == SelectionRule::kThreshold) {
    if (!(policy.alpha >= 0.0f) || !std::isfinite(policy.alpha)) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("the sparse policy's alpha must be a number from 0 on, got {}",
                              policy.alpha));
    }
    if (policy.alpha > 1.0f && policy.last_tiles == 0) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("the sparse policy's alpha must be in 0..1 when there is no dense "
                              "tail (last tiles 0), got {}: nothing would be chosen anywhere",
                              policy.alpha));
    }
  }
  if (policy.rule == SelectionRule::kShare) {
    if (!(policy.share > 0.0 && policy.share <= 1.0)) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("the sparse policy's share must be above 0 and at most 1, got {}",
                              policy.share));
    }
    return CheckRange("least number of chosen blocks", policy.min_blocks, 0,
                      std::numeric_limits<int>::max());
  }
  return {};
}

Result<> ValidateSizes(const SparsePolicy& policy) {
  if (policy.block_tokens != 64 && policy.block_tokens != 128) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("the sparse policy's block must be 64 or 128 tokens, got {}",
                            policy.block_tokens));
  }
  const int tile = policy.tile_positions;
  if (tile != 0 &&
      (tile < 1 || tile > kMaxTilePositions || !std::has_single_bit(static_cast<unsigned>(tile)))) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("the sparse policy's tile must be a power of two in 1..{} positions, "
                            "or 'auto' for one by the group size, got {}",
                            kMaxTilePositions, tile));
  }
  if (policy.estimate == BlockEstimate::kFar &&
      (policy.num_estimates < 2 || policy.num_estimates > kMaxFarKeys + 1)) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("the sparse policy's estimates per block must be in 2..{} (a block "
                            "keeps {} far keys), got {}",
                            kMaxFarKeys + 1, kMaxFarKeys, policy.num_estimates));
  }
  if (Result<> sink = CheckRange("sink tokens", policy.sink_tokens, 0, kMaxPolicyTokens); !sink) {
    return sink;
  }
  if (Result<> window = CheckRange("window tokens", policy.window_tokens, 1, kMaxPolicyTokens);
      !window) {
    return window;
  }
  if (Result<> tail = CheckRange("last tiles", policy.last_tiles, 0, kMaxPolicyTokens); !tail) {
    return tail;
  }
  return CheckRange("least prompt tokens", policy.min_prompt_tokens, 0, kMaxPolicyTokens);
}

// Its layer in 0..most_layer, its KV head, if it names one, in 0..most_head.
Result<> CheckPlace(const OwnShare& own, int most_layer, int most_head) {
  Result<> valid = CheckRange("layer with a share", own.layer, 0, most_layer);
  if (!valid || own.kv_head == -1) return valid;
  const std::string name = fmt::format("KV head with a share of layer {}", own.layer);
  return CheckRange(name, own.kv_head, 0, most_head);
}

Result<> ValidateShares(const SparsePolicy& policy) {
  std::vector<std::pair<int, int>> named;
  for (const OwnShare& own : policy.shares) {
    if (Result<> valid = CheckPlace(own, kMaxPolicyEntries, kMaxPolicyEntries); !valid)
      return valid;
    if (!(own.share >= 0.0 && own.share <= 1.0)) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("the sparse policy's share of layer {} must be in 0..1, got {}",
                              own.layer, own.share));
    }
    named.emplace_back(own.layer, own.kv_head);
  }
  std::sort(named.begin(), named.end());
  const auto twice = std::adjacent_find(named.begin(), named.end());
  if (twice == named.end()) return {};
  return Fail(ErrorCode::kInvalid,
              fmt::format("the sparse policy's shares name layer {}{} twice", twice->first,
                          twice->second < 0 ? "" : fmt::format(", KV head {},", twice->second)));
}

Result<> ValidateLists(const SparsePolicy& policy) {
  if (std::max({policy.dense_layers.size(), policy.dense_heads.size(), policy.shares.size()}) >
      size_t{kMaxPolicyEntries}) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("the sparse policy's lists must have at most {} entries, got {}",
                            kMaxPolicyEntries,
                            std::max({policy.dense_layers.size(), policy.dense_heads.size(),
                                      policy.shares.size()})));
  }
  for (const int layer : policy.dense_layers) {
    if (Result<> valid = CheckRange("dense layer", layer, 0, kMaxPolicyEntries); !valid) {
      return valid;
    }
  }
  for (const DenseHead& head : policy.dense_heads) {
    Result<> valid = CheckRange("dense head's layer", head.layer, 0, kMaxPolicyEntries);
    if (valid) valid = CheckRange("dense KV head", head.kv_head, 0, kMaxPolicyEntries);
    if (!valid) return valid;
  }
  return ValidateShares(policy);
}

std::string RuleText(const SparsePolicy& policy) {
  switch (policy.rule) {
    case SelectionRule::kThreshold:
      return fmt::format("threshold:{}", policy.alpha);
    case SelectionRule::kShare:
      return fmt::format("share:{},{}", policy.share, policy.min_blocks);
    case SelectionRule::kAll:
      return "all";
    case SelectionRule::kNone:
      return "none";
  }
  return "?";
}

// What heads keep if not the rule's share; nothing where all do.
std::string SharesText(const SparsePolicy& policy) {
  if (policy.rule != SelectionRule::kShare) return "";
  std::vector<OwnShare> sorted = policy.shares;
  std::sort(sorted.begin(), sorted.end(), [](const OwnShare& a, const OwnShare& b) {
    return std::pair(a.layer, a.kv_head) < std::pair(b.layer, b.kv_head);
  });
  SparsePolicy told = policy;
  told.shares.clear();
  std::vector<std::string> items;
  for (const OwnShare& own : sorted) {
    const DenseHead head = {.layer = own.layer, .kv_head = own.kv_head};
    if (IsDenseHead(policy, head) || ShareOfHead(told, head) == own.share) continue;
    told.shares.push_back(own);
    items.push_back(own.kv_head < 0 ? fmt::format("{}:{}", own.layer, own.share)
                                    : fmt::format("{}:{}:{}", own.layer, own.kv_head, own.share));
  }
  return items.empty() ? "" : fmt::format(" shares={}", fmt::join(items, ","));
}

// Nothing where energies are the usual ones.
std::string EnergyText(const SparsePolicy& policy) {
  if (!ChoosesByEnergy(policy) || policy.energy == BlockEnergy::kEstimates) return "";
  return policy.energy == BlockEnergy::kTrue ? " energy=true"
                                             : fmt::format(" energy=random:{}", policy.energy_seed);
}

}  // namespace

Result<> ValidatePolicy(const SparsePolicy& policy) {
  if (Result<> rule = ValidateRule(policy); !rule) return rule;
  if (Result<> sizes = ValidateSizes(policy); !sizes) return sizes;
  return ValidateLists(policy);
}

Result<> ValidatePolicyFor(const SparsePolicy& policy, const PolicyModel& model) {
  if (Result<> valid = ValidatePolicy(policy); !valid) return valid;
  for (const int layer : policy.dense_layers) {
    Result<> valid = CheckRange("dense layer", layer, 0, model.num_layers - 1);
    if (!valid) return valid;
  }
  for (const DenseHead& head : policy.dense_heads) {
    Result<> valid = CheckRange("dense head's layer", head.layer, 0, model.num_layers - 1);
    if (valid) valid = CheckRange("dense KV head", head.kv_head, 0, model.num_kv_heads - 1);
    if (!valid) return valid;
  }
  for (const OwnShare& own : policy.shares) {
    Result<> valid = CheckPlace(own, model.num_layers - 1, model.num_kv_heads - 1);
    if (!valid) return valid;
  }
  return {};
}

int TilePositions(const SparsePolicy& policy, int group_size) {
  if (policy.tile_positions != 0) return policy.tile_positions;
  return static_cast<int>(
      std::bit_floor(static_cast<unsigned>(std::max(1, kTileRows / group_size))));
}

bool ChoosesByEnergy(const SparsePolicy& policy) {
  return policy.rule == SelectionRule::kThreshold || policy.rule == SelectionRule::kShare;
}

bool IsDenseHead(const SparsePolicy& policy, const DenseHead& head) {
  return std::find(policy.dense_layers.begin(), policy.dense_layers.end(), head.layer) !=
             policy.dense_layers.end() ||
         std::find(policy.dense_heads.begin(), policy.dense_heads.end(), head) !=
             policy.dense_heads.end();
}

double ShareOfHead(const SparsePolicy& policy, const DenseHead& head) {
  double share = policy.share;
  for (const OwnShare& own : policy.shares) {
    if (own.layer != head.layer) continue;
    if (own.kv_head == head.kv_head) return own.share;
    if (own.kv_head < 0) share = own.share;
  }
  return share;
}

std::string PolicyText(const SparsePolicy& policy) {
  std::vector<int> layers = policy.dense_layers;
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  std::vector<std::string> heads;
  std::vector<DenseHead> sorted = policy.dense_heads;
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  for (const DenseHead& head : sorted) {
    if (std::binary_search(layers.begin(), layers.end(), head.layer)) continue;
    heads.push_back(fmt::format("{}:{}", head.layer, head.kv_head));
  }
  const bool is_far = policy.estimate == BlockEstimate::kFar;
  return fmt::format(
      "rule={} estimate={}{} block={} tile={} sink={} window={} last={} correction={} min={} "
      "windows={} dense-layers={} dense-heads={}{}",
      RuleText(policy), is_far ? fmt::format("far:{}", policy.num_estimates) : "mean",
      EnergyText(policy), policy.block_tokens,
      policy.tile_positions == 0 ? "auto" : fmt::format("{}", policy.tile_positions),
      policy.sink_tokens, policy.window_tokens, policy.last_tiles,
      policy.has_correction ? "on" : "off", policy.min_prompt_tokens,
      policy.has_sparse_windows ? "sparse" : "dense", fmt::join(layers, ","), fmt::join(heads, ","),
      SharesText(policy));
}

}  // namespace baton
