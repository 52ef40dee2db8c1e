#include "kernels/attention_prefill.h"

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "kernels/attention_ops.h"
#include "kernels/attention_task.h"

namespace baton {
namespace {

// Rows (positions * heads of a group) of a task: as many pass over a block while it lies in the
// first-level cache. More gained nothing.
constexpr int kPrefillTileRows = 192;
// Tasks per thread below which tiles are halved, so that all threads have work to the end.
constexpr int64_t kTasksPerThread = 4;

int MaxTilePositions(const AttentionShape& shape) {
  return std::max(1, kPrefillTileRows / shape.GroupSize());
}

int64_t CountTiles(std::span<const AttentionSequence> sequences, int64_t tile_positions) {
  int64_t num_tiles = 0;
  for (const AttentionSequence& sequence : sequences) {
    num_tiles += (sequence.num_rows + tile_positions - 1) / tile_positions;
  }
  return num_tiles;
}

// A tile of one sequence.
struct Tile {
  const AttentionSequence* sequence;
  int64_t first_row;  // within the sequence
  int num_positions;
};

// Tile `index` of all sequences, later rows of a sequence first: they take longest.
Tile FindTile(std::span<const AttentionSequence> sequences, int64_t tile_positions, int64_t index) {
  for (const AttentionSequence& sequence : sequences) {
    const int64_t num_tiles = (sequence.num_rows + tile_positions - 1) / tile_positions;
    if (index >= num_tiles) {
      index -= num_tiles;
      continue;
    }
    const int64_t first = (num_tiles - 1 - index) * tile_positions;
    return {.sequence = &sequence,
            .first_row = first,
            .num_positions = static_cast<int>(std::min(tile_positions, sequence.num_rows - first))};
  }
  CHECK(false);
  return {};
}

}  // namespace

size_t PrefillAttentionWorkspaceBytes(const AttentionShape& shape, int num_threads) {
  const int64_t max_rows = int64_t{MaxTilePositions(shape)} * shape.GroupSize();
  return internal::ScratchBytes(shape, max_rows) * static_cast<size_t>(num_threads);
}

void PrefillAttention(const KernelContext& context, const AttentionArgs& args) {
  internal::CheckAttentionArgs(args);
  CHECK_GE(args.workspace.size(),
           PrefillAttentionWorkspaceBytes(args.shape, context.pool.num_threads()));
  const int64_t num_heads = args.shape.num_kv_heads;
  int64_t tile_positions = MaxTilePositions(args.shape);
  const int64_t enough = kTasksPerThread * context.pool.num_threads();
  while (context.pool.num_threads() > 1 && tile_positions * args.shape.GroupSize() >= 48 &&
         CountTiles(args.sequences, tile_positions) * num_heads < enough) {
    tile_positions /= 2;
  }
  const size_t scratch_bytes = internal::ScratchBytes(
      args.shape, int64_t{MaxTilePositions(args.shape)} * args.shape.GroupSize());
  const int64_t num_tasks = CountTiles(args.sequences, tile_positions) * num_heads;
  context.pool.ParallelFor(num_tasks, [&](int64_t index, int worker) {
    const Tile tile = FindTile(args.sequences, tile_positions, index / num_heads);
    AttentionTask task = internal::MakeTask(args, *tile.sequence, index % num_heads);
    task.q += tile.first_row * task.q_stride;
    task.out += tile.first_row * task.out_stride;
    task.first_position += tile.first_row;
    task.num_positions = tile.num_positions;
    task.scratch = args.workspace.data() + static_cast<size_t>(worker) * scratch_bytes;
    context.table.attention->attend(task);
  });
}

}  // namespace baton
