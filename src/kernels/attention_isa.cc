// Attention, compiled once per instruction set.
#include "kernels/attention_segment.inl.h"

namespace baton::BATON_ISA {
namespace {

// The segments that some row of the task sees: [first, last].
struct SegmentRange {
  int64_t first;
  int64_t last;
};

BATON_INLINE SegmentRange SegmentsOf(const AttentionTask& task) {
  return {FirstKey(task, task.first_position) / kSegmentTokens,
          (task.first_position + task.num_positions - 1) / kSegmentTokens};
}

BATON_INLINE bool IsFirstSegment(const AttentionTask& task, int row, int64_t segment) {
  return FirstKey(task, PositionOf(task, row)) / kSegmentTokens == segment;
}

void Attend(const AttentionTask& task) {
  const TaskRows rows = LayOut(task);
  ScaleQueries(task, rows);
  const SegmentRange segments = SegmentsOf(task);
  for (int64_t segment = segments.first; segment <= segments.last; ++segment) {
    AttendSegment(task, rows, segment, [&](int first, int count, const float* o) {
      for (int r = first; r < first + count; ++r, o += task.head_dim) {
        if (!SeesSegment(task, PositionOf(task, r), segment)) continue;
        MergeRow(IsFirstSegment(task, r, segment), task.head_dim, o, rows.m[r],
                 ReduceAdd(Load(rows.l + int64_t{r} * kLanes)),
                 rows.merged_o + int64_t{r} * task.head_dim, rows.merged_m + r, rows.merged_l + r);
      }
    });
  }
  for (int r = 0; r < rows.num_rows; ++r) {
    FinishRow(task, r, rows.merged_o + int64_t{r} * task.head_dim, rows.merged_l[r]);
  }
}

void AttendOneSegment(const AttentionTask& task, int64_t segment, const AttentionPartial& partial) {
  const TaskRows rows = LayOut(task);
  ScaleQueries(task, rows);
  AttendSegment(task, rows, segment, [&](int first, int count, const float* o) {
    for (int r = first; r < first + count; ++r, o += task.head_dim) {
      if (!SeesSegment(task, PositionOf(task, r), segment)) continue;
      for (int c = 0; c < task.head_dim; c += kLanes) {
        Store(partial.o + int64_t{r} * task.head_dim + c, Load(o + c));
      }
      partial.m[r] = rows.m[r];
      partial.l[r] = ReduceAdd(Load(rows.l + int64_t{r} * kLanes));
    }
  });
}

void MergeSegments(const AttentionTask& task, int64_t first_segment, int64_t num_segments,
                   const AttentionPartial& first, int64_t partial_stride) {
  const TaskRows rows = LayOut(task);
  for (int r = 0; r < rows.num_rows; ++r) {
    const int64_t o_offset = int64_t{r} * task.head_dim;
    for (int64_t i = 0; i < num_segments; ++i) {
      if (!SeesSegment(task, PositionOf(task, r), first_segment + i)) continue;
      const int64_t offset = i * partial_stride;
      MergeRow(IsFirstSegment(task, r, first_segment + i), task.head_dim,
               first.o + offset + o_offset, first.m[offset + r], first.l[offset + r],
               rows.merged_o + o_offset, rows.merged_m + r, rows.merged_l + r);
    }
    FinishRow(task, r, rows.merged_o + o_offset, rows.merged_l[r]);
  }
}

}  // namespace

extern const AttentionOps kAttentionOps = {
    .attend = Attend, .attend_segment = AttendOneSegment, .merge_segments = MergeSegments};

}  // namespace baton::BATON_ISA
