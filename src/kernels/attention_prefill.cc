#include "kernels/attention_prefill.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/check.h"
#include "base/divide_up.h"
#include "kernels/attention_decode.h"
#include "kernels/attention_ops.h"
#include "kernels/attention_task.h"

namespace baton {
namespace {

// Rows (positions * heads of a group) of a task at most: as many pass over a block while it lies in
// the first-level cache. More gained nothing.
constexpr int kPrefillTileRows = 192;
// What a task costs beside its rows, in rows: it brings the blocks near and widens them.
constexpr int64_t kTaskRows = 3;
// Workspace for the results of segments, where the past of a few rows is shared out.
constexpr size_t kSegmentBytes = size_t{4} << 20;
// With so many tasks for each thread the threads end together anyway.
constexpr int64_t kTasksPerThread = 4;

int MaxTilePositions(const AttentionShape& shape) {
  return std::max(1, kPrefillTileRows / shape.GroupSize());
}

// Tiles of a sequence, which are of nearly equal size: most and least differ by one position.
int64_t NumTiles(const AttentionSequence& sequence, int64_t max_positions) {
  return DivideUp(sequence.num_rows, max_positions);
}

int64_t CountTiles(std::span<const AttentionSequence> sequences, int64_t max_positions) {
  int64_t num_tiles = 0;
  for (const AttentionSequence& sequence : sequences) {
    num_tiles += NumTiles(sequence, max_positions);
  }
  return num_tiles;
}

// Keys that the last row of a sequence sees.
int64_t NumKeys(const AttentionSequence& sequence, int64_t window) {
  const int64_t keys = sequence.first_position + sequence.num_rows;
  return window == 0 ? keys : std::min(keys, window + sequence.num_rows - 1);
}

// A way to share out the work. Cost: of the thread that has most of it, rows times keys, each task
// taken to be as long as the longest.
struct Sharing {
  int64_t tile_positions = 0;  // 0: by segments of keys, as decode does it
  int64_t cost = std::numeric_limits<int64_t>::max();
};

int64_t CostOfTask(int64_t rows, int64_t keys) {
  return (DivideUp(rows, kGroupRows) * kGroupRows + kTaskRows) * keys;
}

// Any way gives the same bits. Where tiles are few, threads would be idle at the end: then tiles
// are made smaller, or rows stay together, which reads the keys once, and their past is shared out.
Sharing BestSharing(const AttentionArgs& args, int64_t num_threads) {
  const int64_t most = MaxTilePositions(args.shape);
  const int64_t num_heads = args.shape.num_kv_heads;
  if (CountTiles(args.sequences, most) * num_heads >= kTasksPerThread * num_threads) {
    return {.tile_positions = most};
  }
  int64_t longest = 0;
  int64_t keys = 0;
  int64_t num_segments = 0;
  for (const AttentionSequence& sequence : args.sequences) {
    if (sequence.num_rows == 0) continue;
    const int64_t own_keys = NumKeys(sequence, args.layer.sliding_window);
    longest = std::max(longest, sequence.num_rows);
    keys = std::max(keys, own_keys);
    num_segments += DivideUp(own_keys, kSegmentTokens);
  }
  Sharing best = {.tile_positions = most};
  for (int64_t positions = std::min(most, longest); positions > 0; --positions) {
    const int64_t tasks = CountTiles(args.sequences, positions) * num_heads;
    const int64_t rows = DivideUp(longest, DivideUp(longest, positions)) * args.shape.GroupSize();
    const int64_t cost = DivideUp(tasks, num_threads) * CostOfTask(rows, keys);
    if (cost < best.cost) best = {.tile_positions = positions, .cost = cost};
  }
  if (longest > kMaxDecodeRows ||
      DecodeAttentionWorkspaceBytes(args.shape, args.sequences, static_cast<int>(num_threads)) >
          args.workspace.size()) {
    return best;
  }
  const int64_t cost =
      DivideUp(num_segments * num_heads, num_threads) *
      CostOfTask(longest * args.shape.GroupSize(), std::min<int64_t>(keys, kSegmentTokens));
  if (cost < best.cost) best = {.tile_positions = 0, .cost = cost};
  return best;
}

// A tile of one sequence.
struct Tile {
  const AttentionSequence* sequence;
  int64_t first_row;  // within the sequence
  int num_positions;
};

// Tile `index` of all sequences, later rows of a sequence first: they take longest.
Tile FindTile(std::span<const AttentionSequence> sequences, int64_t max_positions, int64_t index) {
  for (const AttentionSequence& sequence : sequences) {
    const int64_t num_tiles = NumTiles(sequence, max_positions);
    if (index >= num_tiles) {
      index -= num_tiles;
      continue;
    }
    const int64_t tile = num_tiles - 1 - index;
    const int64_t first = sequence.num_rows * tile / num_tiles;
    const int64_t end = sequence.num_rows * (tile + 1) / num_tiles;
    return {
        .sequence = &sequence, .first_row = first, .num_positions = static_cast<int>(end - first)};
  }
  CHECK(false);
  return {};
}

}  // namespace

size_t PrefillAttentionWorkspaceBytes(const AttentionShape& shape, int num_threads) {
  const int64_t max_rows = int64_t{MaxTilePositions(shape)} * shape.GroupSize();
  return internal::ScratchBytes(shape, max_rows) * static_cast<size_t>(num_threads) + kSegmentBytes;
}

void PrefillAttention(const KernelContext& context, const AttentionArgs& args) {
  internal::CheckAttentionArgs(args);
  CHECK_GE(args.workspace.size(),
           PrefillAttentionWorkspaceBytes(args.shape, context.pool.num_threads()));
  const int64_t num_heads = args.shape.num_kv_heads;
  const int64_t tile_positions = BestSharing(args, context.pool.num_threads()).tile_positions;
  if (tile_positions == 0) {
    DecodeAttention(context, args);
    return;
  }
  const size_t scratch_bytes = internal::ScratchBytes(
      args.shape, int64_t{MaxTilePositions(args.shape)} * args.shape.GroupSize());
  const int64_t num_tasks = CountTiles(args.sequences, tile_positions) * num_heads;
  context.pool.ParallelFor(num_tasks, [&](int64_t index, int worker) {
    const Tile tile = FindTile(args.sequences, tile_positions, index / num_heads);
    AttentionTask task = internal::MakeTask(context.table, args, *tile.sequence, index % num_heads);
    task.q += tile.first_row * task.q_stride;
    task.out += tile.first_row * task.out_stride;
    task.first_position += tile.first_row;
    task.num_positions = tile.num_positions;
    task.scratch = args.workspace.data() + static_cast<size_t>(worker) * scratch_bytes;
    context.table.attention->attend(task);
  });
}

}  // namespace baton
