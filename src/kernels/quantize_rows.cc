#include "kernels/quantize_rows.h"

#include <algorithm>

#include "base/check.h"
#include "base/divide_up.h"

namespace baton {
namespace {

constexpr bool Wants(const InputForms& forms, int side) {
  return ((forms.sides >> side) & 1u) != 0;
}

// Inputs of a task at least: a microsecond of work or more, which pays for a meeting of the
// threads.
constexpr int64_t kTaskInputs = 2048;

// Tasks are rows [i * rows, (i + 1) * rows) and, of these, ranges of inputs.
struct TaskGrid {
  int64_t rows = 0;
  int64_t inputs = 0;
  int64_t num_rows = 0;
  int64_t num_pieces = 0;

  int64_t NumTasks() const { return DivideUp(num_rows, rows) * num_pieces; }
};

size_t CodeBytes(Precision precision) {
  return precision == Precision::kFast ? kInputBlock : 2 * kInputBlock;
}

int RestRows(int64_t num_rows) {
  return static_cast<int>(num_rows % kLinearTileRows);
}

// The rest is one tile or two: half of the tile that would hold it, and what is left, where that
// fills up at least a quarter less. A tile of 1 row takes as long as 2.
int FirstRestTileRows(int rest) {
  const int padded = rest == 0 ? 0 : PaddedTileRows(rest);
  return padded > 4 && rest <= padded / 4 * 3 ? padded / 2 : rest;
}

// Rows of all tiles, those that fill up the last one included.
int64_t PaddedRowCount(int64_t num_rows) {
  const int rest = RestRows(num_rows);
  const int last = rest - FirstRestTileRows(rest);
  if (last > 0) return num_rows - last + PaddedTileRows(last);
  return num_rows - rest + (rest == 0 ? 0 : PaddedTileRows(rest));
}

// Hands out consecutive parts of a buffer; without a buffer, it measures.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}
  template <typename T>
  T* Take(size_t bytes) {
    std::byte* part = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
    return reinterpret_cast<T*>(part);
  }
  size_t used() const { return used_; }

 private:
  std::byte* base_;
  size_t used_ = 0;
};

struct Parts {
  uint8_t* codes = nullptr;
  float* scales = nullptr;
  std::array<uint32_t*, kNumSideKinds> sides = {};
  float* floats = nullptr;
};

Parts Carve(const RowInputsShape& shape, Carver& carver) {
  const size_t rows = static_cast<size_t>(PaddedRowCount(shape.num_rows));
  Parts parts;
  if (shape.forms.sides != 0) {
    const size_t blocks = rows * static_cast<size_t>(shape.num_inputs / kInputBlock);
    parts.codes = carver.Take<uint8_t>(blocks * CodeBytes(shape.precision));
    parts.scales = carver.Take<float>(blocks * sizeof(float));
    for (int side = 0; side < kNumSideKinds; ++side) {
      if (!Wants(shape.forms, side)) continue;
      const size_t values = static_cast<size_t>(SideValues(static_cast<SideKind>(side)));
      parts.sides[static_cast<size_t>(side)] =
          carver.Take<uint32_t>(blocks * values * sizeof(uint32_t));
    }
  }
  if (shape.forms.floats) {
    parts.floats = carver.Take<float>(rows * static_cast<size_t>(shape.num_inputs) * sizeof(float));
  }
  return parts;
}

// The rows of a tile lie side by side, block by block, so that threads that share them write to the
// same lines of the cache and take these from each other for every block, which costs more than the
// work itself. Ranges of inputs lie apart; where rows must be whole, a thread gets a run of them.
TaskGrid GridOf(int64_t num_rows, int64_t num_inputs, InputRanges ranges, const ThreadPool& pool) {
  const int64_t num_threads = pool.num_threads();
  const int64_t num_tiles = DivideUp(num_rows, kLinearTileRows);
  const int64_t worthwhile = std::max<int64_t>(1, num_rows * num_inputs / kTaskInputs);
  TaskGrid grid = {
      .rows = kLinearTileRows, .inputs = num_inputs, .num_rows = num_rows, .num_pieces = 1};
  if (num_threads == 1 || num_tiles >= kTilesPerThread * num_threads) return grid;
  if (ranges == InputRanges::kWholeRows) {
    const int64_t rows = DivideUp(num_rows, std::min(num_threads, worthwhile));
    grid.rows = rows + rows % 2;  // two rows' codes fill a line
    return grid;
  }
  const int64_t wanted = std::min(kTilesPerThread * num_threads, worthwhile);
  const int64_t pieces = DivideUp(wanted, num_tiles);
  grid.inputs = DivideUp(DivideUp(num_inputs, pieces), kInputBlock) * kInputBlock;
  grid.num_pieces = DivideUp(num_inputs, grid.inputs);
  return grid;
}

}  // namespace

InputForms InputForms::For(DType type) {
  const std::optional<PanelType> panel_type = PanelTypeOf(type);
  CHECK(panel_type.has_value());
  if (!IsQuantized(*panel_type)) return {.sides = 0, .floats = true};
  return {.sides = 1u << static_cast<int>(FormatOf(*panel_type).side), .floats = false};
}

size_t RowInputsBytes(const RowInputsShape& shape) {
  Carver carver(nullptr);
  Carve(shape, carver);
  return carver.used();
}

RowInputs::RowInputs(const RowInputsShape& shape, Isa isa, std::byte* buffer)
    : shape_(shape), isa_(isa) {
  Carver carver(buffer);
  const Parts parts = Carve(shape, carver);
  codes_ = parts.codes;
  scales_ = parts.scales;
  sides_ = parts.sides;
  floats_ = parts.floats;
}

int64_t RowInputs::num_tiles() const {
  const int rest = RestRows(shape_.num_rows);
  return shape_.num_rows / kLinearTileRows + (rest > 0) + (FirstRestTileRows(rest) < rest);
}

int64_t RowInputs::FirstRow(int64_t t) const {
  const int64_t num_whole = shape_.num_rows / kLinearTileRows;
  if (t <= num_whole) return t * kLinearTileRows;
  return num_whole * kLinearTileRows + FirstRestTileRows(RestRows(shape_.num_rows));
}

int RowInputs::TileRows(int64_t t) const {
  const int64_t end = t + 1 < num_tiles() ? FirstRow(t + 1) : shape_.num_rows;
  return static_cast<int>(end - FirstRow(t));
}

int64_t RowInputs::TileOf(int64_t row) const {
  const int64_t last = num_tiles() - 1;
  return row >= FirstRow(last) ? last : row / kLinearTileRows;
}

int64_t RowInputs::PaddedRows() const {
  return PaddedRowCount(shape_.num_rows);
}

// No tile before the last is filled up.
int64_t RowInputs::BlocksBefore(int64_t t) const {
  return FirstRow(t) * (shape_.num_inputs / kInputBlock);
}

void RowInputs::PointAt(int64_t t, PanelType type, LinearTileArgs& args) const {
  if (!IsQuantized(type)) {
    CHECK(shape_.forms.floats);
    args.floats = floats_ + FirstRow(t) * shape_.num_inputs;
    return;
  }
  const SideKind kind = FormatOf(type).side;
  CHECK(Wants(shape_.forms, static_cast<int>(kind)));
  const int64_t blocks = BlocksBefore(t);
  args.codes = codes_ + blocks * static_cast<int64_t>(CodeBytes(shape_.precision));
  args.scales = scales_ + blocks;
  args.side = sides_[static_cast<size_t>(kind)] + blocks * SideValues(kind);
}

QuantizeRowArgs RowInputs::ArgsOf(const InputRange& range) const {
  const int64_t t = TileOf(range.row);
  const int64_t in_tile = range.row - FirstRow(t);
  const int64_t tile_rows = PaddedTileRows(TileRows(t));
  QuantizeRowArgs args{};
  args.num_inputs = range.count;
  args.tile_rows = tile_rows;
  if (codes_ != nullptr) {
    const int64_t at = BlocksBefore(t) + range.first / kInputBlock * tile_rows + in_tile;
    args.codes = codes_ + at * static_cast<int64_t>(CodeBytes(shape_.precision));
    args.scales = scales_ + at;
    for (int side = 0; side < kNumSideKinds; ++side) {
      uint32_t* values = sides_[static_cast<size_t>(side)];
      if (values == nullptr) continue;
      args.sides[side] = values + at * SideValues(static_cast<SideKind>(side));
    }
  }
  if (floats_ != nullptr) {
    args.floats = floats_ + FirstRow(t) * shape_.num_inputs + range.first * tile_rows + in_tile;
  }
  return args;
}

RowInputs QuantizeRows(const KernelContext& context, View2<const float> rows,
                       const RowInputsShape& shape, std::span<std::byte> buffer) {
  CHECK_EQ(rows.rows(), shape.num_rows);
  CHECK_EQ(rows.cols(), shape.num_inputs);
  return QuantizeMadeRows(
      context, InputRanges::kPieces,
      [&](const InputRange& range) { return rows.row(range.row) + range.first; }, shape, buffer);
}

RowInputs QuantizeMadeRows(const KernelContext& context, InputRanges ranges, InputMaker make,
                           const RowInputsShape& shape, std::span<std::byte> buffer) {
  CHECK_GE(buffer.size(), RowInputsBytes(shape));
  CHECK_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kLineBytes, 0u);
  if (shape.forms.sides != 0) CHECK_EQ(shape.num_inputs % kInputBlock, 0);

  const RowInputs inputs(shape, context.table.isa, buffer.data());
  const QuantizeRowFn quantize =
      context.table.linear->quantize_row[static_cast<int>(shape.precision)];
  const TaskGrid grid = GridOf(inputs.PaddedRows(), shape.num_inputs, ranges, context.pool);
  context.pool.ParallelFor(grid.NumTasks(), [&](int64_t task, int) {
    const int64_t first_row = task / grid.num_pieces * grid.rows;
    const int64_t end_row = std::min(first_row + grid.rows, grid.num_rows);
    const int64_t first = task % grid.num_pieces * grid.inputs;
    const int64_t count = std::min(grid.inputs, shape.num_inputs - first);
    for (int64_t row = first_row; row < end_row; ++row) {
      const InputRange range = {.row = row, .first = first, .count = count};
      QuantizeRowArgs args = inputs.ArgsOf(range);
      args.row = row < shape.num_rows ? make(range) : nullptr;
      quantize(args);
    }
  });
  return inputs;
}

}  // namespace baton
