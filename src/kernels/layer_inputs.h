// The inputs of a layer's matrices, made from what the matrices before them gave: one pass over the
// rows instead of one for each operation, and one meeting of the threads.
//
// The operations and their order are those of row_ops.h and QuantizeRows one after the other, so
// the bits are, too.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/kernel_context.h"
#include "kernels/quantize_rows.h"
#include "kernels/row_ops.h"
#include "tensor/view.h"

namespace baton {

// Shapes: [num_rows, width] f32.
struct NormInputsArgs {
  View2<float> hidden;  // the update is added to it
  // What the sublayer before adds; no rows: nothing. Changed where it is normed or scaled.
  View2<float> update;
  View1<const float> update_norm;  // [width], applied to the update first; empty: none
  float update_scale = 1.0f;       // then
  View1<const float> weight;       // [width], of the norm of hidden
  float eps = 0.0f;                // of both norms
  View2<float> normed;             // may not overlap hidden; may be the memory of update
};

// hidden = hidden + norm(update) * update_scale; normed = norm(hidden); and normed in kernel form.
// Requires, of shape and buffer: as QuantizeRows. Threads: the pool's.
RowInputs NormInputs(const KernelContext& context, const NormInputsArgs& args,
                     const RowInputsShape& shape, std::span<std::byte> buffer);

// Shapes: [num_rows, width] f32.
struct GatedInputsArgs {
  View2<float> gate;  // becomes activation(gate) * up
  View2<const float> up;
  Activation activation = Activation::kSilu;
};

// gate = activation(gate) * up, and the same in kernel form.
// Requires, of shape and buffer: as QuantizeRows. Threads: the pool's.
RowInputs GatedInputs(const KernelContext& context, const GatedInputsArgs& args,
                      const RowInputsShape& shape, std::span<std::byte> buffer);

}  // namespace baton
