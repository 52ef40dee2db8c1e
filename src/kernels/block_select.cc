#include "kernels/block_select.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "base/check.h"

namespace baton {
namespace {

int64_t RoundUp(int64_t tokens, int64_t block_tokens) {
  return (tokens + block_tokens - 1) / block_tokens;
}

// The blocks that only the energies decide about: [begin, end), all of them scored.
struct OptionalBlocks {
  int64_t begin;
  int64_t end;
};

OptionalBlocks FindOptional(const SparsePolicy& policy, const TileBlocks& blocks) {
  const int64_t sink = RoundUp(policy.sink_tokens, policy.block_tokens);
  const int64_t window = RoundUp(policy.window_tokens, policy.block_tokens);
  const int64_t begin = std::max({blocks.low, blocks.edge, sink});
  // A window of at least one block reaches back to `first`, below which all blocks are complete.
  const int64_t end = std::max(blocks.low, blocks.first - window + 1);
  return {.begin = std::min(begin, end), .end = end};
}

// How many of `count` optional blocks a share keeps: to the nearest, halves upwards.
int64_t ShareOf(const SparsePolicy& policy, double share, int64_t count) {
  const auto wanted = static_cast<int64_t>(std::floor(share * static_cast<double>(count) + 0.5));
  return std::min(count, std::max<int64_t>(wanted, policy.min_blocks));
}

// Energies are sums of weights, so not negative: their bits are in their order. What is not a
// number comes last.
int32_t KeyOf(float energy) {
  return energy == energy ? std::bit_cast<int32_t>(energy) : -1;
}

// The chosen optional blocks, ascending, at the front of `scratch`. Returns how many.
int64_t ChooseByShare(const SparsePolicy& policy, double share, const TileBlocks& blocks,
                      const OptionalBlocks& optional, std::span<const float> energies,
                      std::span<int32_t> scratch) {
  const int64_t count = optional.end - optional.begin;
  const int64_t wanted = ShareOf(policy, share, count);
  if (wanted == 0) return 0;
  const std::span<const float> own = energies.subspan(
      static_cast<size_t>(optional.begin - blocks.low), static_cast<size_t>(count));
  std::transform(own.begin(), own.end(), scratch.begin(), KeyOf);
  const auto border = scratch.begin() + (wanted - 1);
  std::nth_element(scratch.begin(), border, scratch.begin() + count, std::greater<>());
  const int32_t least = *border;
  // Of those at the border itself, the lower blocks are taken.
  int64_t ties =
      wanted - std::count_if(scratch.begin(), border, [&](int32_t key) { return key > least; });
  int64_t chosen = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t key = KeyOf(own[static_cast<size_t>(i)]);
    const bool is_tie = key == least && ties > 0;
    // Stored first and kept or not: nobody can foretell which.
    scratch[static_cast<size_t>(chosen)] = static_cast<int32_t>(optional.begin + i);
    chosen += static_cast<int64_t>(key > least) + static_cast<int64_t>(is_tie);
    ties -= static_cast<int64_t>(is_tie);
  }
  return chosen;
}

int64_t ChooseByThreshold(const SparsePolicy& policy, const TileBlocks& blocks,
                          const OptionalBlocks& optional, std::span<const float> energies,
                          std::span<int32_t> scratch) {
  float largest = 0.0f;
  for (const float energy : energies) largest = energy > largest ? energy : largest;
  const float threshold = policy.alpha * largest;
  int64_t chosen = 0;
  for (int64_t block = optional.begin; block < optional.end; ++block) {
    if (!(energies[static_cast<size_t>(block - blocks.low)] >= threshold)) continue;
    scratch[static_cast<size_t>(chosen++)] = static_cast<int32_t>(block);
  }
  return chosen;
}

int64_t Choose(const SparsePolicy& policy, double share, const TileBlocks& blocks,
               const OptionalBlocks& optional, std::span<const float> energies,
               std::span<int32_t> scratch) {
  switch (policy.rule) {
    case SelectionRule::kThreshold:
      return ChooseByThreshold(policy, blocks, optional, energies, scratch);
    case SelectionRule::kShare:
      return ChooseByShare(policy, share, blocks, optional, energies, scratch);
    case SelectionRule::kNone:
      return 0;
    case SelectionRule::kAll:
      break;
  }
  int64_t chosen = 0;
  for (int64_t block = optional.begin; block < optional.end; ++block) {
    scratch[static_cast<size_t>(chosen++)] = static_cast<int32_t>(block);
  }
  return chosen;
}

}  // namespace

TileBlocks FindTileBlocks(const TileRows& rows, int block_tokens) {
  CHECK(rows.first_position >= 0 && rows.first_position <= rows.last_position);
  const int64_t window = rows.sliding_window;
  const auto first_key = [&](int64_t position) {
    return window == 0 ? int64_t{0} : std::max<int64_t>(0, position - window + 1);
  };
  return {.low = first_key(rows.first_position) / block_tokens,
          .edge = RoundUp(first_key(rows.last_position), block_tokens),
          .scored_end = (rows.last_position + 1) / block_tokens,
          .first = rows.first_position / block_tokens,
          .last = rows.last_position / block_tokens};
}

SelectionCounts SelectBlocks(const SparsePolicy& policy, double share, const TileBlocks& blocks,
                             std::span<const float> energies, const SelectionLists& lists) {
  CHECK_EQ(static_cast<int64_t>(energies.size()), blocks.NumScored());
  const OptionalBlocks optional = FindOptional(policy, blocks);
  const int64_t chosen = Choose(policy, share, blocks, optional, energies, lists.scratch);
  SelectionCounts counts;
  int64_t next = 0;
  const auto keep = [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      lists.kept[static_cast<size_t>(counts.kept++)] = static_cast<int32_t>(block);
    }
  };
  keep(blocks.low, optional.begin);
  for (int64_t block = optional.begin; block < optional.end; ++block) {
    const bool is_chosen = next < chosen && lists.scratch[static_cast<size_t>(next)] == block;
    // Stored in both and kept in one: nobody can foretell in which.
    lists.kept[static_cast<size_t>(counts.kept)] = static_cast<int32_t>(block);
    lists.corrected[static_cast<size_t>(counts.corrected)] = static_cast<int32_t>(block);
    counts.kept += static_cast<int64_t>(is_chosen);
    counts.corrected += static_cast<int64_t>(!is_chosen);
    next += static_cast<int64_t>(is_chosen);
  }
  keep(optional.end, blocks.last + 1);
  return counts;
}

SelectionCounts KeepAllBlocks(const TileBlocks& blocks, const SelectionLists& lists) {
  for (int64_t i = 0; i < blocks.NumCandidates(); ++i) {
    lists.kept[static_cast<size_t>(i)] = static_cast<int32_t>(blocks.low + i);
  }
  return {.kept = blocks.NumCandidates(), .corrected = 0};
}

}  // namespace baton
