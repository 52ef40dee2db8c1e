#include "kernels/weight_matrix.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "kernels/pack.h"

namespace baton {
namespace {

std::string Describe(const WeightShape& shape) {
  return std::string(DTypeName(shape.type)) + " [" + std::to_string(shape.num_outputs) + ", " +
         std::to_string(shape.num_inputs) + "]";
}

Result<PanelType> CheckShape(const WeightShape& shape) {
  const std::optional<PanelType> panel_type = PanelTypeOf(shape.type);
  if (!panel_type) {
    return Fail(ErrorCode::kUnavailable,
                "no kernels for matrices of this type: " + Describe(shape));
  }
  constexpr int64_t kMostElements = int64_t{1} << 44;
  if (shape.num_outputs <= 0 || shape.num_inputs <= 0 ||
      shape.num_outputs > kMostElements / shape.num_inputs) {
    return Fail(ErrorCode::kInvalid, "bad matrix sizes: " + Describe(shape));
  }
  return *panel_type;
}

Result<WeightMatrix> FailSize(const WeightShape& shape, size_t num_bytes) {
  return Fail(ErrorCode::kInvalid, "bytes do not match the matrix: " + Describe(shape) + ", " +
                                       std::to_string(num_bytes) + " bytes");
}

size_t PanelsBytes(const WeightShape& shape, PanelType panel_type) {
  return static_cast<size_t>((shape.num_outputs + kPanelRows - 1) / kPanelRows) *
         static_cast<size_t>(PanelBytes(panel_type, shape.num_inputs));
}

}  // namespace

WeightMatrix::WeightMatrix(const WeightShape& shape, PanelType panel_type,
                           std::span<const std::byte> panels)
    : type_(shape.type),
      panel_type_(panel_type),
      num_outputs_(shape.num_outputs),
      num_inputs_(shape.num_inputs),
      panel_bytes_(PanelBytes(panel_type, shape.num_inputs)),
      panels_(panels) {}

Result<WeightMatrix> WeightMatrix::Pack(const WeightSource& source, ThreadPool& pool) {
  const Result<PanelType> panel_type = CheckShape(source.shape());
  if (!panel_type) return Forward(panel_type);
  const std::optional<uint64_t> row_bytes =
      RowBytes(source.type, static_cast<uint64_t>(source.num_inputs));
  if (!row_bytes || source.bytes.size() != *row_bytes * static_cast<uint64_t>(source.num_outputs)) {
    return FailSize(source.shape(), source.bytes.size());
  }
  Result<AlignedBytes> memory = AlignedBytes::Allocate(PanelsBytes(source.shape(), *panel_type));
  if (!memory) return Forward(memory);
  WeightMatrix matrix(source.shape(), *panel_type, {memory->data(), memory->size()});
  pool.ParallelFor(matrix.num_panels(), [&](int64_t p, int) {
    const int64_t first = p * kPanelRows;
    const int64_t rows = std::min<int64_t>(kPanelRows, source.num_outputs - first);
    PackPanel(*panel_type,
              {.rows = source.bytes.data() + first * static_cast<int64_t>(*row_bytes),
               .row_bytes = static_cast<int64_t>(*row_bytes),
               .num_rows = static_cast<int>(rows),
               .num_inputs = source.num_inputs},
              reinterpret_cast<uint8_t*>(memory->data()) + p * matrix.panel_bytes_);
  });
  matrix.memory_ = *std::move(memory);
  return matrix;
}

Result<WeightMatrix> WeightMatrix::FromPanels(const WeightShape& shape,
                                              std::span<const std::byte> panels) {
  const Result<PanelType> panel_type = CheckShape(shape);
  if (!panel_type) return Forward(panel_type);
  const uint64_t block = TraitsOf(shape.type).block_elements;
  if (static_cast<uint64_t>(shape.num_inputs) % block != 0 ||
      panels.size() != PanelsBytes(shape, *panel_type)) {
    return FailSize(shape, panels.size());
  }
  CHECK_EQ(reinterpret_cast<uintptr_t>(panels.data()) % kLineBytes, 0u);
  return WeightMatrix(shape, *panel_type, panels);
}

void WeightMatrix::DequantizeRow(int64_t row, std::span<float> out) const {
  CHECK_GE(row, 0);
  CHECK_LT(row, num_outputs_);
  CHECK_EQ(static_cast<int64_t>(out.size()), num_inputs_);
  UnpackPanelRow(panel_type_, panel(row / kPanelRows), static_cast<int>(row % kPanelRows), out);
}

}  // namespace baton
