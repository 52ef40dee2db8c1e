// Linear layers: rows of inputs times a weight matrix of any supported type.
//
// The bits of an output depend on its input row, the weights and the precision; never on the number
// of rows, their place, the threads or the instruction set. Formulas: docs/numerics.md.
//
//   const InputForms forms = gate.input_forms() | up.input_forms();
//   const RowInputsShape shape{.num_rows = n, .num_inputs = k, .precision = p, .forms = forms};
//   const RowInputs inputs = QuantizeRows(context, rows, shape, buffer);  // RowInputsBytes(shape)
//   Linear(context, gate, inputs, gate_out);
//   Linear(context, up, inputs, up_out);
#pragma once

#include "kernels/kernel_context.h"
#include "kernels/quantize_rows.h"
#include "kernels/weight_matrix.h"
#include "tensor/view.h"

namespace baton {

// out[r, o] = sum over i of weights[o, i] * inputs[r, i].
// Shapes: inputs: [num_rows, num_inputs], weights: [num_outputs, num_inputs],
//   out: [num_rows, num_outputs] f32; columns beyond are not touched.
// Requires: inputs were made by the same instruction set, with the forms that weights need.
// Threads: the pool's. Memory: none.
void Linear(const KernelContext& context, const WeightMatrix& weights, const RowInputs& inputs,
            View2<float> out);

}  // namespace baton
