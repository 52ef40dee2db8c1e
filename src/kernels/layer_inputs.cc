#include "kernels/layer_inputs.h"

#include "base/check.h"
#include "kernels/row_kernel_ops.h"

namespace baton {
namespace {

void CheckShape(View2<const float> rows, const RowInputsShape& shape) {
  CHECK_EQ(rows.rows(), shape.num_rows);
  CHECK_EQ(rows.cols(), shape.num_inputs);
}

void AddUpdate(const RowKernelOps& ops, const NormInputsArgs& args, int64_t row) {
  const int64_t width = args.hidden.cols();
  float* update = args.update.row(row);
  if (!args.update_norm.empty()) {
    ops.rms_norm(update, args.update_norm.data(), width, args.eps, update);
  }
  if (args.update_scale != 1.0f) ops.scale(update, args.update_scale, width, update);
  ops.add(args.hidden.row(row), update, width, args.hidden.row(row));
}

}  // namespace

RowInputs NormInputs(const KernelContext& context, const NormInputsArgs& args,
                     const RowInputsShape& shape, std::span<std::byte> buffer) {
  CheckShape(args.hidden, shape);
  CheckShape(args.normed, shape);
  CHECK_EQ(args.weight.size(), shape.num_inputs);
  const bool has_update = args.update.rows() != 0;
  if (has_update) CheckShape(args.update, shape);
  if (!args.update_norm.empty()) CHECK_EQ(args.update_norm.size(), shape.num_inputs);
  const RowKernelOps& ops = *context.table.rows;
  const auto make = [&](const InputRange& range) {
    if (has_update) AddUpdate(ops, args, range.row);
    float* normed = args.normed.row(range.row);
    ops.rms_norm(args.hidden.row(range.row), args.weight.data(), range.count, args.eps, normed);
    return normed;
  };
  return QuantizeMadeRows(context, InputRanges::kWholeRows, make, shape, buffer);
}

RowInputs GatedInputs(const KernelContext& context, const GatedInputsArgs& args,
                      const RowInputsShape& shape, std::span<std::byte> buffer) {
  CheckShape(args.gate, shape);
  CheckShape(args.up, shape);
  const RowKernelOps& ops = *context.table.rows;
  const auto gated = args.activation == Activation::kSilu ? ops.gated_silu : ops.gated_gelu;
  const auto make = [&](const InputRange& range) {
    float* gate = args.gate.row(range.row) + range.first;
    gated(gate, args.up.row(range.row) + range.first, range.count, gate);
    return gate;
  };
  return QuantizeMadeRows(context, InputRanges::kPieces, make, shape, buffer);
}

}  // namespace baton
