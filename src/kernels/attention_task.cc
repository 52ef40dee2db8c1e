#include "kernels/attention_task.h"

#include <limits>

#include "base/check.h"

namespace baton::internal {
namespace {

constexpr double kLog2E = 1.4426950408889634;
// A window that hides nothing: larger than any position, small enough to add to one.
constexpr int64_t kNoWindow = std::numeric_limits<int64_t>::max() / 4;

}  // namespace

void CheckAttentionArgs(const AttentionArgs& args) {
  const AttentionShape& shape = args.shape;
  CHECK_GT(shape.num_kv_heads, 0);
  CHECK_GT(shape.num_heads, 0);
  CHECK_EQ(shape.num_heads % shape.num_kv_heads, 0);
  CHECK(shape.head_dim > 0 && shape.head_dim <= kMaxHeadDim && shape.head_dim % 16 == 0);
  CHECK_EQ(args.q.cols(), int64_t{shape.num_heads} * shape.head_dim);
  CHECK_EQ(args.out.cols(), args.q.cols());
  CHECK_EQ(args.out.rows(), args.q.rows());
  CHECK_GE(args.layer.sliding_window, 0);
  CHECK_LE(args.layer.sliding_window, kNoWindow);
  CHECK_GE(args.layer.soft_cap, 0.0f);
  CHECK_EQ(reinterpret_cast<uintptr_t>(args.workspace.data()) % 64, 0u);
  for (const AttentionSequence& sequence : args.sequences) {
    CHECK_GE(sequence.num_rows, 0);
    CHECK_GE(sequence.first_row, 0);
    CHECK_GE(sequence.first_position, 0);
    CHECK_LE(sequence.first_row + sequence.num_rows, args.q.rows());
  }
}

size_t ScratchBytes(const AttentionShape& shape, int64_t max_rows) {
  return (AttentionScratchBytes(max_rows, shape.head_dim) + 63) / 64 * 64;
}

AttentionTask MakeTask(const KernelTable& table, const AttentionArgs& args,
                       const AttentionSequence& sequence, int64_t kv_head) {
  const AttentionShape& shape = args.shape;
  const AttentionLayer& layer = args.layer;
  const int64_t column = kv_head * shape.GroupSize() * shape.head_dim;
  const double scale = layer.scale;
  const double cap = layer.soft_cap;
  return {
      .q = args.q.row(sequence.first_row) + column,
      .out = args.out.row(sequence.first_row) + column,
      .q_stride = args.q.stride(),
      .out_stride = args.out.stride(),
      .num_positions = static_cast<int>(sequence.num_rows),
      .group = shape.GroupSize(),
      .head_dim = shape.head_dim,
      .q_factor = static_cast<float>(cap > 0.0 ? scale / cap : scale * kLog2E),
      .soft_cap_log2 = static_cast<float>(cap * kLog2E),
      .first_position = sequence.first_position,
      .window = layer.sliding_window == 0 ? kNoWindow : layer.sliding_window,
      .blocks = sequence.blocks,
      .record_offset = layer.record_offset + static_cast<size_t>(kv_head) * layer.head_stride,
      .kv_type = args.layer.kv_type,
      .widens_blocks = table.widens_blocks,
      .scratch = nullptr,
  };
}

}  // namespace baton::internal
