// The inputs of linear layers, in the form in which the kernels read them.
//
// Made once per matrix of rows and shared by all layers that read it (q, k and v; gate and up).
// Quantized weights read 32 codes per block with one binary32 scale: int8 under Precision::kFast,
// int16 under kExact. Float weights read the numbers themselves.
//
// A block of 32 inputs with the largest magnitude `amax`, and L = 127 (fast) or 32,512 (exact):
//   scale = amax / L; code = x * (L / amax), to the nearest integer, ties to even
//   amax < 2^-119 (fast) or 2^-111 (exact): scale and codes are 0 (either quotient would leave the
//     range of normal numbers)
//   any NaN or infinity in the block: scale is NaN and codes are 0, so that all outputs of the row
//     are NaN
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/function_ref.h"
#include "kernels/kernel_context.h"
#include "kernels/linear_ops.h"
#include "kernels/panel.h"
#include "kernels/precision.h"
#include "tensor/dtype.h"
#include "tensor/view.h"

namespace baton {

// Which forms of the same inputs are wanted: those of all weights that will read them.
struct InputForms {
  uint32_t sides = 0;   // bit SideKind; any bit: codes and scales, too
  bool floats = false;  // the numbers themselves

  // The form that weights of this type read. Requires: PanelTypeOf(type).
  static InputForms For(DType type);
  friend InputForms operator|(InputForms a, InputForms b) {
    return {.sides = a.sides | b.sides, .floats = a.floats || b.floats};
  }
  friend bool operator==(const InputForms&, const InputForms&) = default;
};

struct RowInputsShape {
  int64_t num_rows = 0;
  int64_t num_inputs = 0;  // a multiple of 32 if any side is wanted
  Precision precision = Precision::kFast;
  InputForms forms;
};

// The buffer that QuantizeRows needs. Units: bytes.
size_t RowInputsBytes(const RowInputsShape& shape);

// The inputs [first, first + count) of a row.
struct InputRange {
  int64_t row = 0;
  int64_t first = 0;
  int64_t count = 0;
};

// Makes the inputs of a range and says where they lie: [count] f32, until its next call by the same
// thread. Called once for each range, by any thread of the pool.
using InputMaker = FunctionRef<const float*(const InputRange&)>;

enum class InputRanges {
  kWholeRows,
  kPieces,  // in ranges of whole blocks, too, where rows are few
};

// Rows of inputs in kernel form. A view: it lives in the buffer given to QuantizeRows.
class RowInputs {
 public:
  const RowInputsShape& shape() const { return shape_; }
  int64_t num_rows() const { return shape_.num_rows; }
  int64_t num_inputs() const { return shape_.num_inputs; }
  Isa isa() const { return isa_; }

  // Tile `t` has the rows [FirstRow(t), FirstRow(t) + TileRows(t)). All have kLinearTileRows but
  // for those of the rest.
  int64_t num_tiles() const;
  int64_t FirstRow(int64_t t) const;
  int TileRows(int64_t t) const;

  // Sets the input pointers of `args` to tile t, for weights of this type.
  // Requires: the shape's forms have what the type needs.
  void PointAt(int64_t t, PanelType type, LinearTileArgs& args) const;

 private:
  friend RowInputs QuantizeMadeRows(const KernelContext&, InputRanges, InputMaker,
                                    const RowInputsShape&, std::span<std::byte>);
  RowInputs(const RowInputsShape& shape, Isa isa, std::byte* buffer);

  int64_t TileOf(int64_t row) const;
  int64_t BlocksBefore(int64_t t) const;
  QuantizeRowArgs ArgsOf(const InputRange& range) const;
  int64_t PaddedRows() const;

  RowInputsShape shape_;
  Isa isa_;
  uint8_t* codes_ = nullptr;                         // [tile][block][tile row][32 or 64]
  float* scales_ = nullptr;                          // [tile][block][tile row]
  std::array<uint32_t*, kNumSideKinds> sides_ = {};  // [tile][block][tile row][1 or 2]
  float* floats_ = nullptr;                          // [tile][input][tile row]
};

// Brings rows into the form that Linear reads.
// Shapes: rows: [shape.num_rows, shape.num_inputs] f32, finite (see above).
// Requires: buffer has RowInputsBytes(shape) bytes, aligned to 64, and outlives the result, which
//   serves only the instruction set of `context`.
// Threads: the pool's. Memory: none but the buffer; `rows` is not read after the return.
RowInputs QuantizeRows(const KernelContext& context, View2<const float> rows,
                       const RowInputsShape& shape, std::span<std::byte> buffer);

// The same for rows that are made on the way, so that what a row goes through between two matrices
// is one pass and one meeting of the threads. `make` is called for all of the shape's rows.
RowInputs QuantizeMadeRows(const KernelContext& context, InputRanges ranges, InputMaker make,
                           const RowInputsShape& shape, std::span<std::byte> buffer);

}  // namespace baton
