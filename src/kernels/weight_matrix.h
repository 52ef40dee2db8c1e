// A weight matrix, repacked for the kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "kernels/panel.h"
#include "kernels/quantize_rows.h"
#include "tensor/aligned_buffer.h"
#include "tensor/dtype.h"
#include "threads/pool.h"

namespace baton {

struct WeightShape {
  DType type = DType::kF32;
  int64_t num_outputs = 0;  // rows
  int64_t num_inputs = 0;   // elements of a row
};

// A matrix as a model file has it: rows of blocks, without gaps.
struct WeightSource {
  DType type = DType::kF32;
  std::span<const std::byte> bytes;
  int64_t num_outputs = 0;
  int64_t num_inputs = 0;

  WeightShape shape() const {
    return {.type = type, .num_outputs = num_outputs, .num_inputs = num_inputs};
  }
};

// Weights [num_outputs, num_inputs] in panels of 16 output rows (kernels/panel.h), in their own
// type. Immutable; move-only.
class WeightMatrix {
 public:
  // Repacks a matrix. Errors: invalid (sizes not positive, bytes not what sizes and type say),
  // unavailable (a type without kernels), exhausted (memory).
  // Threads: the pool's. Memory: allocates bytes().
  static Result<WeightMatrix> Pack(const WeightSource& source, ThreadPool& pool);

  // A matrix whose panels lie in memory already, as bytes() of Pack wrote them: nothing is copied.
  // Any bytes make a matrix. Requires: `panels` is aligned to 64 bytes and outlives the result.
  // Errors: invalid (sizes as in Pack; not as many bytes as the panels take), unavailable.
  static Result<WeightMatrix> FromPanels(const WeightShape& shape,
                                         std::span<const std::byte> panels);

  DType type() const { return type_; }
  PanelType panel_type() const { return panel_type_; }
  int64_t num_outputs() const { return num_outputs_; }
  int64_t num_inputs() const { return num_inputs_; }
  int64_t num_panels() const { return (num_outputs_ + kPanelRows - 1) / kPanelRows; }
  const uint8_t* panel(int64_t p) const {
    return reinterpret_cast<const uint8_t*>(panels_.data()) + p * panel_bytes_;
  }
  int64_t panel_bytes() const { return panel_bytes_; }
  // All panels.
  std::span<const std::byte> panels() const { return panels_; }
  // Memory taken.
  size_t bytes() const { return panels_.size(); }

  // The form of inputs that Linear needs for this matrix.
  InputForms input_forms() const { return InputForms::For(type_); }

  // Decodes one output row: the bits that DequantizeRow of tensor/dequantize.h gives for the
  // source. Shapes: out: [num_inputs] f32. Requires: 0 <= row < num_outputs(). Threads: any.
  void DequantizeRow(int64_t row, std::span<float> out) const;

 private:
  WeightMatrix(const WeightShape& shape, PanelType panel_type, std::span<const std::byte> panels);

  DType type_;
  PanelType panel_type_;
  int64_t num_outputs_;
  int64_t num_inputs_;
  int64_t panel_bytes_;
  std::span<const std::byte> panels_;
  AlignedBytes memory_;  // of panels_, if it is the matrix's own
};

}  // namespace baton
