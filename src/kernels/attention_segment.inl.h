// A row's way through its segments, on f32x16: scale the queries, attend one segment, merge,
// finish. attention_isa.cc puts these together for prefill (all segments) and decode (one at a
// time).
#pragma once

#include <cstdint>

#include "kernels/attention.inl.h"
#include "kernels/attention_ops.h"
#include "kernels/attention_q8.inl.h"

namespace baton::BATON_ISA {
namespace {

// From this many groups of rows on, a block is widened to f32 once for all of them, where that is
// faster (KernelTable::widens_blocks).
inline constexpr int kWidenGroups = 3;

// A task's arrays in its scratch memory.
struct TaskRows {
  int num_rows;
  float* q;         // [num_rows][head_dim], times the task's factor
  float* o;         // [num_rows][head_dim], of the running segment
  float* merged_o;  // [num_rows][head_dim]
  float* l;         // [num_rows][16]
  float* m;         // [num_rows]
  float* merged_m;  // [num_rows]
  float* merged_l;  // [num_rows]
  float* logits;    // [kGroupRows][64]
  float* widened;   // keys and values of one block
  // For KvType::kQ8 alone:
  Q8Queries codes;        // of q
  uint8_t* weight_codes;  // [kGroupRows][64] codes
  uint8_t* end;           // of these arrays
};

BATON_INLINE TaskRows LayOut(const AttentionTask& task) {
  TaskRows rows;
  rows.num_rows = task.num_positions * task.group;
  const int64_t matrix = int64_t{rows.num_rows} * task.head_dim;
  const int64_t vector = (rows.num_rows + kLanes - 1) / kLanes * kLanes;
  float* p = reinterpret_cast<float*>(task.scratch);
  rows.logits = p;
  p += kGroupRows * kBlockTokens;
  rows.widened = p;
  p += int64_t{2} * kBlockTokens * task.head_dim;
  rows.q = p;
  p += matrix;
  rows.o = p;
  p += matrix;
  rows.merged_o = p;
  p += matrix;
  rows.l = p;
  p += int64_t{rows.num_rows} * kLanes;
  rows.m = p;
  p += vector;
  rows.merged_m = p;
  p += vector;
  rows.merged_l = p;
  p += vector;
  rows.codes.groups = KeyScaleGroupsOf(task.head_dim);
  rows.codes.scales = p;
  p += int64_t{rows.num_rows} * rows.codes.groups;
  rows.codes.starts = reinterpret_cast<int32_t*>(p);
  p += int64_t{rows.num_rows} * rows.codes.groups;
  rows.weight_codes = reinterpret_cast<uint8_t*>(p);
  rows.codes.codes = rows.weight_codes + kGroupRows * kWeightCodeBytes;
  rows.end = rows.codes.From(rows.num_rows).codes;
  return rows;
}

// Position of the first key that a row at `position` sees.
BATON_INLINE int64_t FirstKey(const AttentionTask& task, int64_t position) {
  const int64_t first = position - task.window + 1;
  return first > 0 ? first : 0;
}

BATON_INLINE int64_t PositionOf(const AttentionTask& task, int row) {
  return task.first_position + row / task.group;
}

// q of the task, times its factor; as codes too where the blocks hold codes.
BATON_INLINE void ScaleQueries(const AttentionTask& task, const TaskRows& rows) {
  const f32x16 factor = Set1(task.q_factor);
  for (int row = 0; row < rows.num_rows; ++row) {
    const float* from =
        task.q + (row / task.group) * task.q_stride + int64_t{row % task.group} * task.head_dim;
    float* to = rows.q + int64_t{row} * task.head_dim;
    for (int c = 0; c < task.head_dim; c += kLanes) Store(to + c, Mul(Load(from + c), factor));
    if (task.kv_type == KvType::kQ8) QuantizeQuery(to, task.head_dim, rows.codes.From(row));
  }
}

// A block's keys and values as f32, in the same layout.
BATON_INLINE void WidenBlock(const uint16_t* record, int head_dim, float* widened) {
  const int count = 2 * kBlockTokens * head_dim;
  for (int i = 0; i < count; i += 4 * kLanes) {
    BATON_UNROLL
    for (int v = 0; v < 4; ++v) {
      Store(widened + i + v * kLanes, LoadHalf(record + i + v * kLanes));
    }
  }
}

BATON_INLINE const std::byte* RecordOf(const AttentionTask& task, int64_t block) {
  return task.blocks[block] + task.record_offset;
}

BATON_INLINE int64_t MinInt64(int64_t a, int64_t b) {
  return a < b ? a : b;
}

BATON_INLINE int ClampToken(int64_t token) {
  return token < 0 ? 0 : token > kBlockTokens ? kBlockTokens : static_cast<int>(token);
}

// What each row of a group, from row `first` on, sees of the block that begins at block_begin.
BATON_INLINE void FindVisible(const AttentionTask& task, int first, int count, int64_t block_begin,
                              TokenRange* visible) {
  int64_t position = PositionOf(task, first);
  int head = first % task.group;
  for (int r = 0; r < count; ++r) {
    visible[r].begin = ClampToken(FirstKey(task, position) - block_begin);
    visible[r].end = ClampToken(position + 1 - block_begin);
    if (++head == task.group) {
      head = 0;
      ++position;
    }
  }
}

// Rows of the next group when so many are left: groups of nearly equal size, for small ones use the
// registers badly.
BATON_INLINE int NextGroupRows(int rows_left) {
  if (rows_left <= kGroupRows) return rows_left;
  const int groups_left = (rows_left + kGroupRows - 1) / kGroupRows;
  return (rows_left + groups_left - 1) / groups_left;
}

// Asks for a part of the next record, while a group of rows computes: of a widened block nothing
// else asks for memory ahead.
BATON_INLINE void PrefetchPart(const char* next, int64_t bytes, int group, int num_groups) {
  const int64_t part = (bytes / num_groups + 64) / 64 * 64;
  const int64_t end = MinInt64(bytes, (group + 1) * part);
  for (int64_t at = group * part; at < end; at += 64) __builtin_prefetch(next + at, 0, 2);
}

// Asks for the scales of the record that is read next, of which no other loop does.
BATON_INLINE void PrefetchScales(const char* next, int head_dim) {
  const Q8Record record = Q8RecordAt(next, head_dim);
  const char* end = reinterpret_cast<const char*>(record.means);
  for (const char* p = reinterpret_cast<const char*>(record.key_scales); p < end; p += 64) {
    __builtin_prefetch(p, 0, 2);
  }
}

// A fresh (o, m, l) for the rows of a group.
BATON_INLINE void ResetGroup(int count, int head_dim, const RowState& group) {
  for (int i = 0; i < count * head_dim; i += kLanes) Store(group.o + i, Zero());
  for (int r = 0; r < count; ++r) {
    Store(group.l + r * kLanes, Zero());
    group.m[r] = kNoMaximum;
  }
}

// Where a block stands among those of its segment.
struct BlockTurn {
  bool is_first;
  bool is_last;
};

// The rows of a group, from row `first` on, for one kind of block.
template <typename T>
BATON_INLINE void SetQueries(const AttentionTask& task, const TaskRows& rows, int first,
                             BlockWork<T>& work) {
  work.q = rows.q + int64_t{first} * task.head_dim;
  if (sizeof(T) == sizeof(float) && work.next != nullptr) {
    PrefetchPart(work.next, int64_t{4} * kBlockTokens * task.head_dim, first / kGroupRows,
                 (rows.num_rows + kGroupRows - 1) / kGroupRows);
  }
}
BATON_INLINE void SetQueries(const AttentionTask&, const TaskRows& rows, int first, Q8Work& work) {
  work.queries = rows.codes.From(first);
}

// One block for all groups of rows that see some of it. The segment's first block starts the rows'
// (o, m, l), and after its last each group goes to close(first row, rows, o of the first row) while
// its o is near.
template <typename Work, typename Close>
BATON_INLINE void AttendGroups(const AttentionTask& task, const TaskRows& rows, int64_t block,
                               const BlockTurn& turn, Work work, const Close& close) {
  TokenRange visible[kGroupRows];
  const int64_t begin = block * kBlockTokens;
  work.visible = visible;
  work.logits = rows.logits;
  work.head_dim = task.head_dim;
  work.soft_cap_log2 = task.soft_cap_log2;
  for (int first = 0, count = 0; first < rows.num_rows; first += count) {
    count = NextGroupRows(rows.num_rows - first);
    const int64_t first_position = PositionOf(task, first);
    const int64_t last_position = PositionOf(task, first + count - 1);
    work.whole =
        first_position >= begin + kBlockTokens - 1 && FirstKey(task, last_position) <= begin;
    work.is_fresh = turn.is_first && work.whole;
    // Of a segment's only block, the sums of a group are wanted no longer than till they are
    // closed.
    const bool is_only = turn.is_first && turn.is_last;
    work.o = is_only ? rows.o : rows.o + int64_t{first} * task.head_dim;
    work.m = rows.m + first;
    work.l = rows.l + int64_t{first} * kLanes;
    if (turn.is_first && !work.whole) {
      ResetGroup(count, task.head_dim, {.o = work.o, .m = work.m, .l = work.l});
    }
    if (last_position < begin || FirstKey(task, first_position) >= begin + kBlockTokens) {
      if (turn.is_last) close(first, count, work.o);
      continue;
    }
    if (!work.whole) FindVisible(task, first, count, begin, visible);
    SetQueries(task, rows, first, work);
    AttendBlock(count, work);
    work.prefetch = false;
    if (turn.is_last) close(first, count, work.o);
  }
}

// Runs the task's rows over one block of 64 tokens; `next` will be read after it.
template <typename Close>
BATON_INLINE void AttendOneBlock(const AttentionTask& task, const TaskRows& rows, int64_t block,
                                 int64_t next, const BlockTurn& turn, const Close& close) {
  const char* next_record = reinterpret_cast<const char*>(RecordOf(task, next));
  if (task.kv_type == KvType::kQ8) {
    Q8Work work = {};
    work.record = Q8RecordAt(RecordOf(task, block), task.head_dim);
    work.weight_codes = rows.weight_codes;
    work.next = next_record;
    work.prefetch = true;
    PrefetchScales(next_record, task.head_dim);
    AttendGroups(task, rows, block, turn, work, close);
    return;
  }
  const int64_t value_offset = int64_t{kBlockTokens} * task.head_dim;
  const uint16_t* record = reinterpret_cast<const uint16_t*>(RecordOf(task, block));
  if (task.widens_blocks && rows.num_rows > (kWidenGroups - 1) * kGroupRows) {
    WidenBlock(record, task.head_dim, rows.widened);
    BlockWork<float> work = {};
    work.keys = rows.widened;
    work.values = rows.widened + value_offset;
    if (next != block) work.next = next_record;
    AttendGroups(task, rows, block, turn, work, close);
    return;
  }
  BlockWork<uint16_t> work = {};
  work.keys = record;
  work.values = record + value_offset;
  work.next = next_record;
  work.prefetch = true;
  AttendGroups(task, rows, block, turn, work, close);
}

// Runs the task's rows over one segment, from a fresh (o, m, l); close: see AttendGroups.
template <typename Close>
BATON_INLINE void AttendSegment(const AttentionTask& task, const TaskRows& rows, int64_t segment,
                                const Close& close) {
  const int64_t last_position = task.first_position + task.num_positions - 1;
  int64_t block = FirstKey(task, task.first_position) / kBlockTokens;
  if (block < segment * kSegmentBlocks) block = segment * kSegmentBlocks;
  int64_t end = last_position / kBlockTokens + 1;
  if (end > (segment + 1) * kSegmentBlocks) end = (segment + 1) * kSegmentBlocks;
  for (const int64_t first = block; block < end; ++block) {
    const bool is_last = block + 1 == end;
    AttendOneBlock(task, rows, block, is_last ? block : block + 1,
                   {.is_first = block == first, .is_last = is_last}, close);
  }
}

// Whether a row at `position` sees a key of the segment.
BATON_INLINE bool SeesSegment(const AttentionTask& task, int64_t position, int64_t segment) {
  return position >= segment * kSegmentTokens &&
         FirstKey(task, position) < (segment + 1) * kSegmentTokens;
}

// Adds a later segment (o, m, l) to the merged (o, m, l) of a row; the first is taken as it is.
BATON_INLINE void MergeRow(bool is_first, int head_dim, const float* o, float m, float l,
                           float* merged_o, float* merged_m, float* merged_l) {
  if (is_first) {
    for (int c = 0; c < head_dim; c += kLanes) Store(merged_o + c, Load(o + c));
    *merged_m = m;
    *merged_l = l;
    return;
  }
  const float top = m > *merged_m ? m : *merged_m;
  const f32x16 old_factor = Exp2(Set1(*merged_m - top));
  const f32x16 new_factor = Exp2(Set1(m - top));
  for (int c = 0; c < head_dim; c += kLanes) {
    Store(merged_o + c, Fma(Load(o + c), new_factor, Mul(Load(merged_o + c), old_factor)));
  }
  StorePartial(merged_l, Fma(Set1(l), new_factor, Mul(Set1(*merged_l), old_factor)), 1);
  *merged_m = top;
}

// out = o / l by one division. Adding +0 turns a -0 into +0.
BATON_INLINE void FinishRow(const AttentionTask& task, int row, const float* o, float l) {
  float* out =
      task.out + (row / task.group) * task.out_stride + int64_t{row % task.group} * task.head_dim;
  const f32x16 inverse = Set1(1.0f / l);
  for (int c = 0; c < task.head_dim; c += kLanes) {
    Store(out + c, Add(Mul(Load(o + c), inverse), Zero()));
  }
}

}  // namespace
}  // namespace baton::BATON_ISA
