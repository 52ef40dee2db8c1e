#include "kernels/row_ops.h"

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "kernels/row_kernel_ops.h"

namespace baton {
namespace {

// Elements of a task: some ten microseconds of work.
constexpr int64_t kTaskElements = 16384;

template <typename A, typename B>
void CheckSameShape(const A& a, const B& b) {
  CHECK_EQ(a.rows(), b.rows());
  CHECK_EQ(a.cols(), b.cols());
}

// Calls body(row) for every row, several rows a task.
template <typename Body>
void ForEachRow(const KernelContext& context, int64_t num_rows, int64_t width, const Body& body) {
  const int64_t per_task = std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, width));
  context.pool.ParallelFor((num_rows + per_task - 1) / per_task, [&](int64_t task, int) {
    const int64_t end = std::min(num_rows, (task + 1) * per_task);
    for (int64_t row = task * per_task; row < end; ++row) body(row);
  });
}

// Calls body(row, first column, columns) for all of [num_rows, width]; wide rows go in pieces.
// Only for operations on single elements.
template <typename Body>
void ForEachPiece(const KernelContext& context, int64_t num_rows, int64_t width, const Body& body) {
  if (width <= kTaskElements) {
    ForEachRow(context, num_rows, width, [&](int64_t row) { body(row, int64_t{0}, width); });
    return;
  }
  const int64_t pieces = (width + kTaskElements - 1) / kTaskElements;
  context.pool.ParallelFor(num_rows * pieces, [&](int64_t task, int) {
    const int64_t first = task % pieces * kTaskElements;
    body(task / pieces, first, std::min(kTaskElements, width - first));
  });
}

}  // namespace

void RmsNorm(const KernelContext& context, const RmsNormArgs& args) {
  CheckSameShape(args.in, args.out);
  const int64_t group = args.weight.size();
  CHECK_GT(group, 0);
  CHECK_EQ(args.in.cols() % group, 0);
  const RowKernelOps& ops = *context.table.rows;
  ForEachRow(context, args.in.rows(), args.in.cols(), [&](int64_t row) {
    for (int64_t first = 0; first < args.in.cols(); first += group) {
      ops.rms_norm(args.in.row(row) + first, args.weight.data(), group, args.eps,
                   args.out.row(row) + first);
    }
  });
}

void AddRows(const KernelContext& context, const AddRowsArgs& args) {
  CheckSameShape(args.a, args.out);
  CheckSameShape(args.b, args.out);
  const RowKernelOps& ops = *context.table.rows;
  ForEachPiece(
      context, args.out.rows(), args.out.cols(), [&](int64_t row, int64_t first, int64_t count) {
        ops.add(args.a.row(row) + first, args.b.row(row) + first, count, args.out.row(row) + first);
      });
}

void AddBias(const KernelContext& context, const AddBiasArgs& args) {
  CHECK_EQ(args.bias.size(), args.rows.cols());
  const RowKernelOps& ops = *context.table.rows;
  ForEachPiece(context, args.rows.rows(), args.rows.cols(),
               [&](int64_t row, int64_t first, int64_t count) {
                 float* out = args.rows.row(row) + first;
                 ops.add(out, args.bias.data() + first, count, out);
               });
}

void ScaleRows(const KernelContext& context, const ScaleRowsArgs& args) {
  CheckSameShape(args.in, args.out);
  const RowKernelOps& ops = *context.table.rows;
  ForEachPiece(context, args.out.rows(), args.out.cols(),
               [&](int64_t row, int64_t first, int64_t count) {
                 ops.scale(args.in.row(row) + first, args.factor, count, args.out.row(row) + first);
               });
}

void GatedActivation(const KernelContext& context, const GatedActivationArgs& args) {
  CheckSameShape(args.gate, args.out);
  CheckSameShape(args.up, args.out);
  const RowKernelOps& ops = *context.table.rows;
  const auto op = args.activation == Activation::kSilu ? ops.gated_silu : ops.gated_gelu;
  ForEachPiece(
      context, args.out.rows(), args.out.cols(), [&](int64_t row, int64_t first, int64_t count) {
        op(args.gate.row(row) + first, args.up.row(row) + first, count, args.out.row(row) + first);
      });
}

void SoftCapRows(const KernelContext& context, const SoftCapRowsArgs& args) {
  CheckSameShape(args.in, args.out);
  CHECK_GT(args.cap, 0.0f);
  const RowKernelOps& ops = *context.table.rows;
  ForEachPiece(context, args.out.rows(), args.out.cols(),
               [&](int64_t row, int64_t first, int64_t count) {
                 ops.soft_cap(args.in.row(row) + first, args.cap, count, args.out.row(row) + first);
               });
}

}  // namespace baton
