#include "kernels/linear.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/linear_ops.h"

namespace baton {
namespace {

// Panels that one task works on: enough that taking a task costs nothing, and that the rows' codes
// are read from far caches once per group; few enough that the threads end together.
int64_t PanelsPerTask(const WeightMatrix& weights, const KernelContext& context) {
  constexpr int64_t kTaskBytes = 64 << 10;
  constexpr int64_t kMostPanels = 8;
  constexpr int64_t kTasksPerThread = 4;
  const int64_t by_bytes = std::max<int64_t>(kTaskBytes / weights.panel_bytes(), 4);
  const int64_t by_threads =
      weights.num_panels() / (kTasksPerThread * int64_t{context.pool.num_threads()});
  return std::clamp<int64_t>(std::min(by_bytes, by_threads), 1, kMostPanels);
}

}  // namespace

void Linear(const KernelContext& context, const WeightMatrix& weights, const RowInputs& inputs,
            View2<float> out) {
  CHECK_EQ(inputs.num_inputs(), weights.num_inputs());
  CHECK_EQ(out.rows(), inputs.num_rows());
  CHECK_EQ(out.cols(), weights.num_outputs());
  CHECK_EQ(inputs.isa(), context.table.isa);
  if (inputs.num_rows() == 0) return;

  const TilesBySize& tiles = context.table.linear->tiles[static_cast<int>(weights.panel_type())]
                                 ->by_precision[static_cast<int>(inputs.shape().precision)];
  const int64_t num_panels = weights.num_panels();
  const int64_t panels_per_task = PanelsPerTask(weights, context);
  const int64_t num_tasks = (num_panels + panels_per_task - 1) / panels_per_task;
  context.pool.ParallelFor(num_tasks, [&](int64_t task, int) {
    const int64_t first = task * panels_per_task;
    const int64_t end = std::min(first + panels_per_task, num_panels);
    LinearTileArgs args{};
    args.num_inputs = weights.num_inputs();
    args.out_stride = out.stride();
    for (int64_t t = 0; t < inputs.num_tiles(); ++t) {
      inputs.PointAt(t, weights.panel_type(), args);
      args.num_rows = inputs.TileRows(t);
      args.tile_rows = PaddedTileRows(args.num_rows);
      const LinearTileFn tile = tiles.by_size[TileSizeIndex(args.num_rows)];
      for (int64_t p = first; p < end; ++p) {
        const int64_t first_output = p * kPanelRows;
        args.panel = weights.panel(p);
        args.out = out.row(t * kLinearTileRows) + first_output;
        args.num_outputs =
            static_cast<int>(std::min<int64_t>(kPanelRows, weights.num_outputs() - first_output));
        tile(args);
      }
    }
  });
}

}  // namespace baton
