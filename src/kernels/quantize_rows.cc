#include "kernels/quantize_rows.h"

#include <algorithm>

#include "base/check.h"

namespace baton {
namespace {

constexpr bool Wants(const InputForms& forms, int side) {
  return ((forms.sides >> side) & 1u) != 0;
}

size_t CodeBytes(Precision precision) {
  return precision == Precision::kFast ? kInputBlock : 2 * kInputBlock;
}

// Rows of all tiles, those that fill up the last one included.
int64_t PaddedRowCount(int64_t num_rows) {
  const int64_t rest = num_rows % kLinearTileRows;
  return num_rows - rest + (rest == 0 ? 0 : PaddedTileRows(static_cast<int>(rest)));
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

int RowInputs::TileRows(int64_t t) const {
  return static_cast<int>(
      std::min<int64_t>(kLinearTileRows, shape_.num_rows - t * kLinearTileRows));
}

int64_t RowInputs::PaddedRows() const {
  return PaddedRowCount(shape_.num_rows);
}

// All tiles before the last are whole.
int64_t RowInputs::BlocksBefore(int64_t t) const {
  return t * kLinearTileRows * (shape_.num_inputs / kInputBlock);
}

void RowInputs::PointAt(int64_t t, PanelType type, LinearTileArgs& args) const {
  if (!IsQuantized(type)) {
    CHECK(shape_.forms.floats);
    args.floats = floats_ + t * kLinearTileRows * shape_.num_inputs;
    return;
  }
  const SideKind kind = FormatOf(type).side;
  CHECK(Wants(shape_.forms, static_cast<int>(kind)));
  const int64_t blocks = BlocksBefore(t);
  args.codes = codes_ + blocks * static_cast<int64_t>(CodeBytes(shape_.precision));
  args.scales = scales_ + blocks;
  args.side = sides_[static_cast<size_t>(kind)] + blocks * SideValues(kind);
}

QuantizeRowArgs RowInputs::ArgsOfRow(int64_t r) const {
  const int64_t t = r / kLinearTileRows;
  const int64_t in_tile = r % kLinearTileRows;
  const int64_t code_bytes = static_cast<int64_t>(CodeBytes(shape_.precision));
  const int64_t blocks = BlocksBefore(t) + in_tile;
  QuantizeRowArgs args{};
  args.num_inputs = shape_.num_inputs;
  args.tile_rows = PaddedTileRows(TileRows(t));
  if (codes_ != nullptr) {
    args.codes = codes_ + blocks * code_bytes;
    args.scales = scales_ + blocks;
  }
  for (int side = 0; side < kNumSideKinds; ++side) {
    uint32_t* values = sides_[static_cast<size_t>(side)];
    if (values == nullptr) continue;
    args.sides[side] = values + blocks * SideValues(static_cast<SideKind>(side));
  }
  if (floats_ != nullptr) args.floats = floats_ + t * kLinearTileRows * shape_.num_inputs + in_tile;
  return args;
}

RowInputs QuantizeRows(const KernelContext& context, View2<const float> rows,
                       const RowInputsShape& shape, std::span<std::byte> buffer) {
  CHECK_EQ(rows.rows(), shape.num_rows);
  CHECK_EQ(rows.cols(), shape.num_inputs);
  CHECK_GE(buffer.size(), RowInputsBytes(shape));
  CHECK_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kLineBytes, 0u);
  if (shape.forms.sides != 0) CHECK_EQ(shape.num_inputs % kInputBlock, 0);

  const RowInputs inputs(shape, context.table.isa, buffer.data());
  const QuantizeRowFn quantize =
      context.table.linear->quantize_row[static_cast<int>(shape.precision)];
  const int64_t padded_rows = inputs.PaddedRows();
  // A row is a few microseconds of work; many rows go by tiles.
  const int64_t per_task =
      padded_rows >= 4 * kLinearTileRows * context.pool.num_threads() ? kLinearTileRows : 1;
  context.pool.ParallelFor((padded_rows + per_task - 1) / per_task, [&](int64_t task, int) {
    const int64_t end = std::min((task + 1) * per_task, padded_rows);
    for (int64_t r = task * per_task; r < end; ++r) {
      QuantizeRowArgs args = inputs.ArgsOfRow(r);
      args.row = r < shape.num_rows ? rows.row(r) : nullptr;
      quantize(args);
    }
  });
  return inputs;
}

}  // namespace baton
