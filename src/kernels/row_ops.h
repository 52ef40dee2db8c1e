// Operations on the rows of a step that need no weights matrix: norms, sums, activations.
//
// Every view is [num_rows, width] f32 of equal extents unless said; out may be the same memory as
// an input, but may not overlap it otherwise. Each row's result depends on that row alone.
// Threads: each function shares its rows out over the context's pool. Memory: none allocates.
#pragma once

#include "kernels/kernel_context.h"
#include "tensor/view.h"

namespace baton {

struct RmsNormArgs {
  View2<const float> in;
  View1<const float> weight;  // [group]: width is a multiple of it
  float eps = 0.0f;           // added to the mean square
  View2<float> out;
};

// Divides each run of weight.size() elements by its root mean square and multiplies by the weight:
// out = (x * (1 / sqrt(mean(x^2) + eps))) * weight. With weight.size() = width it is the norm of a
// row, with weight.size() = head_dim the norm of each head.
void RmsNorm(const KernelContext& context, const RmsNormArgs& args);

struct AddRowsArgs {
  View2<const float> a;
  View2<const float> b;
  View2<float> out;
};

// out = a + b.
void AddRows(const KernelContext& context, const AddRowsArgs& args);

struct AddBiasArgs {
  View1<const float> bias;  // [width]
  View2<float> rows;        // changed in place
};

// Adds the bias to every row: rows[r, i] = rows[r, i] + bias[i].
void AddBias(const KernelContext& context, const AddBiasArgs& args);

struct ScaleRowsArgs {
  View2<const float> in;
  float factor = 1.0f;
  View2<float> out;
};

// out = in * factor.
void ScaleRows(const KernelContext& context, const ScaleRowsArgs& args);

enum class Activation {
  kSilu,      // x / (1 + e^-x)
  kGeluTanh,  // 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
};

struct GatedActivationArgs {
  View2<const float> gate;
  View2<const float> up;
  Activation activation = Activation::kSilu;
  View2<float> out;
};

// out = activation(gate) * up.
void GatedActivation(const KernelContext& context, const GatedActivationArgs& args);

struct SoftCapRowsArgs {
  View2<const float> in;
  float cap = 0.0f;  // > 0
  View2<float> out;
};

// out = cap * tanh(in / cap).
void SoftCapRows(const KernelContext& context, const SoftCapRowsArgs& args);

}  // namespace baton
