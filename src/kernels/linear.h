// Linear layers: rows of inputs times a weight matrix of any supported type.
//
// The bits of an output depend on its input row, the weights and the precision; never on the number
// of rows, their place, the threads or the instruction set. Formulas: docs/numerics.md.
//
//   const InputForms forms = gate.input_forms() | up.input_forms();
//   const RowInputsShape shape{.num_rows = n, .num_inputs = k, .precision = p, .forms = forms};
//   const RowInputs inputs = QuantizeRows(context, rows, shape, buffer);  // RowInputsBytes(shape)
//   Linear(context, inputs, std::array<LinearJob, 2>{{{&gate, gate_out}, {&up, up_out}}});
#pragma once

#include <span>

#include "kernels/kernel_context.h"
#include "kernels/quantize_rows.h"
#include "kernels/weight_matrix.h"
#include "tensor/view.h"

namespace baton {

// One matrix and where its outputs go: [num_rows, num_outputs] f32.
struct LinearJob {
  const WeightMatrix* weights = nullptr;
  View2<float> out;
};

// Matrices that read the same inputs, in one loop of the threads: of each job
// out[r, o] = sum over i of weights[o, i] * inputs[r, i].
// Shapes: inputs: [num_rows, num_inputs], weights: [num_outputs, num_inputs]; columns of out beyond
//   are not touched.
// Requires: 1 to kMaxLinearJobs jobs; inputs were made by the same instruction set, with the forms
//   that all weights need.
// Threads: the pool's. Memory: none.
inline constexpr size_t kMaxLinearJobs = 3;
void Linear(const KernelContext& context, const RowInputs& inputs, std::span<const LinearJob> jobs);

// The same with one matrix.
void Linear(const KernelContext& context, const WeightMatrix& weights, const RowInputs& inputs,
            View2<float> out);

}  // namespace baton
