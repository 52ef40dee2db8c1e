#include "evaluate/left_out.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "base/number_text.h"
#include "evaluate/policy_label.h"
#include "kernels/block_select.h"

namespace baton {
namespace {

// What a policy's selection in a head depends on.
struct Head {
  int64_t sliding_window = 0;
  double share = 0;  // ShareOfHead

  friend auto operator<=>(const Head&, const Head&) = default;
};

// A tile of a head, by its number.
struct GridTile {
  int64_t index = 0;
  int64_t positions = 0;
  Head head;
};

// Whether the most favourable energies let the policy drop a block of this tile: all mass in the
// newest block that has energy.
bool CanDrop(const SparsePolicy& policy, const GridTile& tile) {
  const TileBlocks blocks = FindTileBlocks({.first_position = tile.index * tile.positions,
                                            .last_position = (tile.index + 1) * tile.positions - 1,
                                            .sliding_window = tile.head.sliding_window},
                                           policy.block_tokens);
  std::vector<float> energies(static_cast<size_t>(blocks.NumScored()), 0.0f);
  if (!energies.empty()) energies.back() = 1.0f;
  const auto count = static_cast<size_t>(blocks.NumCandidates());
  std::vector<int32_t> kept(count);
  std::vector<int32_t> corrected(count);
  std::vector<int32_t> scratch(count);
  return SelectBlocks(policy, tile.head.share, blocks, energies,
                      {.kept = kept, .corrected = corrected, .scratch = scratch})
             .corrected > 0;
}

// The first tile of such heads of which a block can be dropped. The further back a tile's past
// reaches the more there is to drop, so it is found by halving; behind a window's length nothing
// changes any more but the place in a block.
std::optional<int64_t> FirstTile(const SparsePolicy& policy, int64_t positions, const Head& head) {
  const auto can = [&](int64_t index) {
    return CanDrop(policy, {.index = index, .positions = positions, .head = head});
  };
  if (head.sliding_window != 0) {
    const int64_t reach = head.sliding_window + 2 * policy.block_tokens;
    const int64_t end = std::min(reach, ModelLimits::kMaxContext) / positions + 2;
    for (int64_t index = 0; index < end; ++index) {
      if (can(index)) return index;
    }
    return std::nullopt;
  }
  int64_t low = 0;
  int64_t high = ModelLimits::kMaxContext / positions;
  if (!can(high)) return std::nullopt;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (can(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// A policy's label in a sentence: without the rest of long lists.
std::string ShortLabel(const SparsePolicy& policy) {
  constexpr size_t kMaxWord = 24;
  std::istringstream label(PolicyLabel(policy));
  std::string text;
  for (std::string word; label >> word;) {
    if (word.size() > kMaxWord) word = word.substr(0, kMaxWord - 3) + "...";
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

}  // namespace

std::optional<int64_t> FirstSparseLength(const SparsePolicy& policy, const ModelSpec& spec) {
  if (policy.rule == SelectionRule::kAll) return std::nullopt;
  const int64_t positions = TilePositions(policy, spec.num_heads / spec.num_kv_heads);
  std::set<Head> heads;
  for (int layer = 0; layer < spec.num_layers(); ++layer) {
    const int64_t window = spec.layers[static_cast<size_t>(layer)].sliding_window;
    if (window != 0 && !policy.has_sparse_windows) continue;
    for (int kv_head = 0; kv_head < spec.num_kv_heads; ++kv_head) {
      const DenseHead head = {.layer = layer, .kv_head = kv_head};
      if (IsDenseHead(policy, head)) continue;
      heads.insert({.sliding_window = window, .share = ShareOfHead(policy, head)});
    }
  }
  std::optional<int64_t> first;
  for (const Head& head : heads) {
    const std::optional<int64_t> tile = FirstTile(policy, positions, head);
    if (tile && (!first || *tile < *first)) first = tile;
  }
  if (!first) return std::nullopt;
  // One token more than leaves the tile in the dense tail.
  const int64_t tokens =
      std::max((*first + policy.last_tiles) * positions, policy.min_prompt_tokens) + 1;
  return tokens <= ModelLimits::kMaxContext ? std::optional(tokens) : std::nullopt;
}

std::string NothingLeftOutText(const std::vector<NothingLeftOut>& all, const ModelSpec& spec) {
  std::vector<std::string> parts;
  std::string said;  // the lengths of the part before, which are not repeated
  for (const NothingLeftOut& one : all) {
    if (one.lengths.empty()) continue;
    std::vector<std::string> counts;
    for (const int64_t length : one.lengths) counts.push_back(CountText(length));
    const bool is_one = one.lengths.size() == 1 && one.lengths[0] == 1;
    const std::string lengths =
        fmt::format("of {} token{} by ", fmt::join(counts, " and "), is_one ? "" : "s");
    const std::optional<int64_t> first = FirstSparseLength(one.policy, spec);
    std::string from = "never anything";
    if (first && *first > one.lengths.back()) {
      from = fmt::format("something from {} on", CountOf(*first, "token"));
    } else if (first) {
      from = "though something could be";
    }
    parts.push_back(
        fmt::format("{}'{}' ({})", lengths == said ? "" : lengths, ShortLabel(one.policy), from));
    said = lengths;
  }
  if (parts.empty()) return {};
  return fmt::format("nothing was left out {}", fmt::join(parts, ", "));
}

}  // namespace baton
