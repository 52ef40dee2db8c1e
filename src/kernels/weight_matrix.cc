#include "kernels/weight_matrix.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "kernels/pack.h"

namespace baton {
namespace {

std::string Shape(const WeightSource& source) {
  return std::string(DTypeName(source.type)) + " [" + std::to_string(source.num_outputs) + ", " +
         std::to_string(source.num_inputs) + "]";
}

}  // namespace

WeightMatrix::WeightMatrix(const WeightSource& source, PanelType panel_type, int64_t panel_bytes,
                           AlignedBytes panels)
    : type_(source.type),
      panel_type_(panel_type),
      num_outputs_(source.num_outputs),
      num_inputs_(source.num_inputs),
      panel_bytes_(panel_bytes),
      panels_(std::move(panels)) {}

Result<WeightMatrix> WeightMatrix::Pack(const WeightSource& source, ThreadPool& pool) {
  const std::optional<PanelType> panel_type = PanelTypeOf(source.type);
  if (!panel_type) {
    return Fail(ErrorCode::kUnavailable, "no kernels for matrices of this type: " + Shape(source));
  }
  constexpr int64_t kMostElements = int64_t{1} << 44;
  if (source.num_outputs <= 0 || source.num_inputs <= 0 ||
      source.num_outputs > kMostElements / source.num_inputs) {
    return Fail(ErrorCode::kInvalid, "bad matrix sizes: " + Shape(source));
  }
  const std::optional<uint64_t> row_bytes =
      RowBytes(source.type, static_cast<uint64_t>(source.num_inputs));
  if (!row_bytes || source.bytes.size() != *row_bytes * static_cast<uint64_t>(source.num_outputs)) {
    return Fail(ErrorCode::kInvalid, "bytes do not match the matrix: " + Shape(source) + ", " +
                                         std::to_string(source.bytes.size()) + " bytes");
  }
  const int64_t num_panels = (source.num_outputs + kPanelRows - 1) / kPanelRows;
  const int64_t panel_bytes = PanelBytes(*panel_type, source.num_inputs);
  Result<AlignedBytes> panels =
      AlignedBytes::Allocate(static_cast<size_t>(num_panels) * static_cast<size_t>(panel_bytes));
  if (!panels) return Forward(panels);

  pool.ParallelFor(num_panels, [&](int64_t p, int) {
    const int64_t first = p * kPanelRows;
    const int64_t rows = std::min<int64_t>(kPanelRows, source.num_outputs - first);
    PackPanel(*panel_type,
              {.rows = source.bytes.data() + first * static_cast<int64_t>(*row_bytes),
               .row_bytes = static_cast<int64_t>(*row_bytes),
               .num_rows = static_cast<int>(rows),
               .num_inputs = source.num_inputs},
              reinterpret_cast<uint8_t*>(panels->data()) + p * panel_bytes);
  });
  return WeightMatrix(source, *panel_type, panel_bytes, *std::move(panels));
}

void WeightMatrix::DequantizeRow(int64_t row, std::span<float> out) const {
  CHECK_GE(row, 0);
  CHECK_LT(row, num_outputs_);
  CHECK_EQ(static_cast<int64_t>(out.size()), num_inputs_);
  UnpackPanelRow(panel_type_, panel(row / kPanelRows), static_cast<int>(row % kPanelRows), out);
}

}  // namespace baton
