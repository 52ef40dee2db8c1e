#include "kernels/attention_decode.h"

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "kernels/attention_ops.h"
#include "kernels/attention_task.h"

namespace baton {
namespace {

// The segments that rows of a sequence see: first .. first + count - 1.
struct Segments {
  int64_t first;
  int64_t count;
};

Segments SegmentsOf(const AttentionSequence& sequence, int64_t window) {
  if (sequence.num_rows == 0) return {.first = 0, .count = 0};
  const int64_t first_key =
      window == 0 ? 0 : std::max(int64_t{0}, sequence.first_position - window + 1);
  const int64_t last_key = sequence.first_position + sequence.num_rows - 1;
  const int64_t first = first_key / kSegmentTokens;
  return {.first = first, .count = last_key / kSegmentTokens - first + 1};
}

int64_t MaxRows(const AttentionShape& shape, std::span<const AttentionSequence> sequences) {
  int64_t max_rows = 1;
  for (const AttentionSequence& sequence : sequences) {
    max_rows = std::max(max_rows, sequence.num_rows);
  }
  return max_rows * shape.GroupSize();
}

// Floats of one segment's result for the rows of a sequence: o, m, l, in this order.
int64_t PartialFloats(const AttentionShape& shape, const AttentionSequence& sequence) {
  const int64_t rows = sequence.num_rows * shape.GroupSize();
  return rows * (shape.head_dim + 2);
}

AttentionPartial PartialAt(float* data, int64_t rows, int head_dim) {
  return {.o = data, .m = data + rows * head_dim, .l = data + rows * (head_dim + 1)};
}

// One sequence's share of the loops: tasks are (KV head, segment), partials likewise.
struct Share {
  const AttentionSequence* sequence;
  Segments segments;
  int64_t index;          // of the task within the sequence
  int64_t first_partial;  // floats before this sequence's partials
};

// Finds the sequence of a task. With merge_only there is one task per KV head and none for
// sequences of one segment.
Share FindShare(const AttentionArgs& args, bool merge_only, int64_t index) {
  int64_t first_partial = 0;
  for (const AttentionSequence& sequence : args.sequences) {
    const Segments segments = SegmentsOf(sequence, args.layer.sliding_window);
    int64_t num_tasks = args.shape.num_kv_heads * segments.count;
    if (merge_only) num_tasks = segments.count > 1 ? args.shape.num_kv_heads : 0;
    if (index < num_tasks) {
      return {.sequence = &sequence,
              .segments = segments,
              .index = index,
              .first_partial = first_partial};
    }
    index -= num_tasks;
    first_partial += args.shape.num_kv_heads * segments.count * PartialFloats(args.shape, sequence);
  }
  CHECK(false);
  return {};
}

// The workspace: scratch of every worker, then the partials.
struct Workspace {
  std::byte* scratch;
  size_t scratch_bytes;
  float* partials;
};

void AttendShare(const KernelContext& context, const AttentionArgs& args,
                 const Workspace& workspace, int64_t index, int worker) {
  const Share share = FindShare(args, false, index);
  const int64_t kv_head = share.index / share.segments.count;
  const int64_t segment = share.index % share.segments.count;
  AttentionTask task = internal::MakeTask(context.table, args, *share.sequence, kv_head);
  task.scratch = workspace.scratch + static_cast<size_t>(worker) * workspace.scratch_bytes;
  if (share.segments.count == 1) {
    context.table.attention->attend(task);
    return;
  }
  float* data = workspace.partials + share.first_partial +
                share.index * PartialFloats(args.shape, *share.sequence);
  context.table.attention->attend_segment(
      task, share.segments.first + segment,
      PartialAt(data, int64_t{task.num_positions} * task.group, task.head_dim));
}

void MergeShare(const KernelContext& context, const AttentionArgs& args, const Workspace& workspace,
                int64_t index, int worker) {
  const Share share = FindShare(args, true, index);
  AttentionTask task = internal::MakeTask(context.table, args, *share.sequence, share.index);
  task.scratch = workspace.scratch + static_cast<size_t>(worker) * workspace.scratch_bytes;
  const int64_t stride = PartialFloats(args.shape, *share.sequence);
  float* data =
      workspace.partials + share.first_partial + share.index * share.segments.count * stride;
  context.table.attention->merge_segments(
      task, share.segments.first, share.segments.count,
      PartialAt(data, int64_t{task.num_positions} * task.group, task.head_dim), stride);
}

}  // namespace

size_t DecodeAttentionWorkspaceBytes(const AttentionShape& shape,
                                     std::span<const AttentionSequence> sequences,
                                     int num_threads) {
  int64_t partial_floats = 0;
  for (const AttentionSequence& sequence : sequences) {
    partial_floats +=
        shape.num_kv_heads * SegmentsOf(sequence, 0).count * PartialFloats(shape, sequence);
  }
  return internal::ScratchBytes(shape, MaxRows(shape, sequences)) *
             static_cast<size_t>(num_threads) +
         static_cast<size_t>(partial_floats) * sizeof(float);
}

void DecodeAttention(const KernelContext& context, const AttentionArgs& args) {
  internal::CheckAttentionArgs(args);
  const int num_threads = context.pool.num_threads();
  CHECK_GE(args.workspace.size(),
           DecodeAttentionWorkspaceBytes(args.shape, args.sequences, num_threads));
  Workspace workspace = {
      .scratch = args.workspace.data(),
      .scratch_bytes = internal::ScratchBytes(args.shape, MaxRows(args.shape, args.sequences)),
      .partials = nullptr};
  workspace.partials = reinterpret_cast<float*>(
      workspace.scratch + workspace.scratch_bytes * static_cast<size_t>(num_threads));

  int64_t num_tasks = 0;
  int64_t num_merges = 0;
  for (const AttentionSequence& sequence : args.sequences) {
    CHECK_LE(sequence.num_rows, kMaxDecodeRows);
    const Segments segments = SegmentsOf(sequence, args.layer.sliding_window);
    num_tasks += args.shape.num_kv_heads * segments.count;
    if (segments.count > 1) num_merges += args.shape.num_kv_heads;
  }
  context.pool.ParallelFor(num_tasks, [&](int64_t index, int worker) {
    AttendShare(context, args, workspace, index, worker);
  });
  if (num_merges == 0) return;
  context.pool.ParallelFor(num_merges, [&](int64_t index, int worker) {
    MergeShare(context, args, workspace, index, worker);
  });
}

}  // namespace baton
