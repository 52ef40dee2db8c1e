#include "kernels/linear.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/divide_up.h"
#include "kernels/linear_ops.h"

namespace baton {
namespace {

// Fewer rows than this are not worth expanding weights for.
constexpr int64_t kManyRows = 2 * kLinearTileRows;
constexpr int64_t kTasksPerThread = 4;
constexpr int kMaxGroupPanels = 8;

// A grid of tasks: groups of panels x blocks of rows.
struct TaskGrid {
  int64_t panels_per_group;
  int64_t num_groups;
  int64_t rows_per_block;  // a multiple of kLinearTileRows
  int64_t num_blocks;
};

// One layer's work: what all tasks share.
struct Work {
  const WeightMatrix& weights;
  const RowInputs& inputs;
  View2<float> out;
  const LinearKernels& kernels;
  const TilesBySize& tiles;
  bool has_many;
};

// Panels that the thread with most of them multiplies, if groups are shared out evenly.
int64_t LongestShare(int64_t num_panels, int64_t per_group, int num_threads) {
  return DivideUp(DivideUp(num_panels, per_group), num_threads) * per_group;
}

// Panels that one task works on: enough that taking a task costs nothing, and that the rows' codes
// are read from far caches once per group; few enough, and of such a number, that the threads end
// together.
TaskGrid GridOfTiles(const Work& work, int num_threads) {
  constexpr int64_t kTaskBytes = 64 << 10;
  const int64_t num_panels = work.weights.num_panels();
  const int64_t by_bytes = std::max<int64_t>(kTaskBytes / work.weights.panel_bytes(), 4);
  const int64_t by_threads = num_panels / (kTasksPerThread * num_threads);
  int64_t panels = std::clamp<int64_t>(std::min(by_bytes, by_threads), 1, kMaxGroupPanels);
  // Smaller groups read the rows' codes more often: only for a twentieth of the time or more.
  constexpr int64_t kWorthwhile = 20;
  for (int64_t fewer = panels - 1; fewer > 0; --fewer) {
    if (LongestShare(num_panels, fewer, num_threads) * kWorthwhile <=
        LongestShare(num_panels, panels, num_threads) * (kWorthwhile - 1)) {
      panels = fewer;
    }
  }
  // Of many rows each thread takes its own through all panels: what it multiplies it made itself,
  // in the step before, and goes on with in the next, so that nothing wanders between the cores.
  const int64_t num_tiles = work.inputs.num_tiles();
  const bool by_rows = num_tiles >= kTilesPerThread * num_threads;
  const int64_t tiles_per_block = by_rows ? DivideUp(num_tiles, num_threads) : num_tiles;
  return {.panels_per_group = panels,
          .num_groups = DivideUp(num_panels, panels),
          .rows_per_block = tiles_per_block * kLinearTileRows,
          .num_blocks = DivideUp(num_tiles, tiles_per_block)};
}

// Groups as wide as the kernel; as many rows as keep their inputs in the near cache while the
// panels pass, and fewer where there are too few groups for all threads.
TaskGrid GridOfMany(const Work& work, int num_threads) {
  constexpr int64_t kFewestRows = 4 * kLinearTileRows;
  const int64_t num_rows = work.inputs.num_tiles() * kLinearTileRows;
  const int64_t panels = work.kernels.many.panels;
  const int64_t num_groups = DivideUp(work.weights.num_panels(), panels);
  const int64_t row_bytes =
      work.inputs.num_inputs() *
      (IsQuantized(work.weights.panel_type()) ? int64_t{sizeof(uint8_t)} : int64_t{sizeof(float)});
  const int64_t by_cache = work.kernels.many.near_cache_bytes / row_bytes;
  const int64_t by_threads = num_rows * num_groups / (kTasksPerThread * num_threads);
  const int64_t most = std::max(std::min(by_cache, by_threads), kFewestRows);
  const int64_t num_blocks = DivideUp(num_rows, most);
  const int64_t rows = DivideUp(DivideUp(num_rows, num_blocks), kLinearTileRows) * kLinearTileRows;
  return {.panels_per_group = panels,
          .num_groups = num_groups,
          .rows_per_block = rows,
          .num_blocks = DivideUp(num_rows, rows)};
}

struct PanelRange {
  int64_t first;
  int64_t end;
};

// A tile of rows times some panels, one after the other.
void MultiplyTile(const Work& work, int64_t tile, PanelRange panels) {
  LinearTileArgs args{};
  args.num_inputs = work.weights.num_inputs();
  args.out_stride = work.out.stride();
  work.inputs.PointAt(tile, work.weights.panel_type(), args);
  args.num_rows = work.inputs.TileRows(tile);
  args.tile_rows = PaddedTileRows(args.num_rows);
  const LinearTileFn multiply = work.tiles.by_size[TileSizeIndex(args.num_rows)];
  for (int64_t p = panels.first; p < panels.end; ++p) {
    const int64_t first_output = p * kPanelRows;
    args.panel = work.weights.panel(p);
    args.out = work.out.row(work.inputs.FirstRow(tile)) + first_output;
    args.num_outputs =
        static_cast<int>(std::min<int64_t>(kPanelRows, work.weights.num_outputs() - first_output));
    multiply(args);
  }
}

// Tiles [first, first + count) of whole rows times a whole group of panels.
void MultiplyMany(const Work& work, int64_t first, int64_t count, PanelRange panels) {
  const uint8_t* pointers[kMaxGroupPanels];
  for (int64_t p = panels.first; p < panels.end; ++p) {
    pointers[p - panels.first] = work.weights.panel(p);
  }
  LinearTileArgs tile{};
  work.inputs.PointAt(first, work.weights.panel_type(), tile);
  work.kernels.many.multiply(
      {.panels = pointers,
       .num_inputs = work.weights.num_inputs(),
       .codes = tile.codes,
       .scales = tile.scales,
       .side = tile.side,
       .floats = tile.floats,
       .num_rows = count * kLinearTileRows,
       .out = work.out.row(first * kLinearTileRows) + panels.first * kPanelRows,
       .out_stride = work.out.stride()});
}

void RunTask(const Work& work, const TaskGrid& grid, int64_t task) {
  const int64_t group = task % grid.num_groups;
  const int64_t block = task / grid.num_groups;
  const PanelRange panels = {
      .first = group * grid.panels_per_group,
      .end = std::min((group + 1) * grid.panels_per_group, work.weights.num_panels())};
  const int64_t tiles_per_block = grid.rows_per_block / kLinearTileRows;
  int64_t tile = block * tiles_per_block;
  const int64_t end = std::min(tile + tiles_per_block, work.inputs.num_tiles());
  const bool is_whole = panels.end - panels.first == grid.panels_per_group &&
                        panels.end * kPanelRows <= work.weights.num_outputs();
  if (work.has_many && is_whole) {
    const int64_t whole_tiles = std::min(end, work.inputs.num_rows() / kLinearTileRows) - tile;
    if (whole_tiles > 0) MultiplyMany(work, tile, whole_tiles, panels);
    tile += std::max<int64_t>(whole_tiles, 0);
  }
  for (; tile < end; ++tile) MultiplyTile(work, tile, panels);
}

Work WorkOf(const KernelContext& context, const RowInputs& inputs, const LinearJob& job) {
  CHECK_EQ(inputs.num_inputs(), job.weights->num_inputs());
  CHECK_EQ(job.out.rows(), inputs.num_rows());
  CHECK_EQ(job.out.cols(), job.weights->num_outputs());
  const PanelType type = job.weights->panel_type();
  const Precision precision = inputs.shape().precision;
  const LinearKernels& kernels = *context.table.linear->kernels[static_cast<int>(type)];
  CHECK_LE(kernels.many.panels, kMaxGroupPanels);
  return {.weights = *job.weights,
          .inputs = inputs,
          .out = job.out,
          .kernels = kernels,
          .tiles = kernels.by_precision[static_cast<int>(precision)],
          .has_many = kernels.many.panels > 0 && inputs.num_rows() >= kManyRows &&
                      ((context.table.tiles_only >> static_cast<int>(type)) & 1u) == 0 &&
                      (precision == Precision::kFast || !IsQuantized(type))};
}

// The tasks of several jobs in one order: of each job a first part, then of each the next one, as
// many parts as there are threads. A thread begins with a run of this order, so that what belongs
// together (the gate and the other half of an input) comes from one thread, which reads it next.
class TaskOrder {
 public:
  explicit TaskOrder(int num_parts) : num_parts_(num_parts) {}
  void Add(int64_t num_tasks) {
    counts_[num_jobs_++] = num_tasks;
    total_ += num_tasks;
  }
  int64_t total() const { return total_; }

  struct Place {
    size_t job;
    int64_t task;  // of the job
  };
  // Requires: 0 <= index < total().
  Place At(int64_t index) const {
    int64_t part = index * num_parts_ / total_;  // or a later one: jobs' parts are rounded down
    while (Before(part + 1) <= index) ++part;
    index -= Before(part);
    size_t job = 0;
    while (index >= End(job, part) - End(job, part - 1)) {
      index -= End(job, part) - End(job, part - 1);
      ++job;
    }
    return {.job = job, .task = End(job, part - 1) + index};
  }

 private:
  // Where a part of a job's tasks ends.
  int64_t End(size_t job, int64_t part) const { return counts_[job] * (part + 1) / num_parts_; }
  // Tasks of all parts before this one.
  int64_t Before(int64_t part) const {
    int64_t before = 0;
    for (size_t job = 0; job < num_jobs_; ++job) before += End(job, part - 1);
    return before;
  }

  int64_t num_parts_;
  size_t num_jobs_ = 0;
  int64_t total_ = 0;
  std::array<int64_t, kMaxLinearJobs> counts_ = {};
};

}  // namespace

void Linear(const KernelContext& context, const RowInputs& inputs,
            std::span<const LinearJob> jobs) {
  CHECK(!jobs.empty() && jobs.size() <= kMaxLinearJobs);
  CHECK_EQ(inputs.isa(), context.table.isa);
  if (inputs.num_rows() == 0) return;
  const int num_threads = context.pool.num_threads();
  std::array<TaskGrid, kMaxLinearJobs> grids;
  TaskOrder order(num_threads);
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Work work = WorkOf(context, inputs, jobs[i]);
    grids[i] = work.has_many ? GridOfMany(work, num_threads) : GridOfTiles(work, num_threads);
    order.Add(grids[i].num_groups * grids[i].num_blocks);
  }
  context.pool.ParallelFor(order.total(), [&](int64_t index, int) {
    const TaskOrder::Place place = order.At(index);
    RunTask(WorkOf(context, inputs, jobs[place.job]), grids[place.job], place.task);
  });
}

void Linear(const KernelContext& context, const WeightMatrix& weights, const RowInputs& inputs,
            View2<float> out) {
  const LinearJob job = {.weights = &weights, .out = out};
  Linear(context, inputs, {&job, 1});
}

}  // namespace baton
