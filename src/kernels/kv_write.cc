#include "kernels/kv_write.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/kv_write_ops.h"
#include "tensor/kv_record.h"

namespace baton {
namespace {

struct Blocks {
  int64_t first;
  int64_t count;
};

Blocks BlocksOf(const KvWriteSequence& sequence) {
  if (sequence.num_rows == 0) return {.first = 0, .count = 0};
  const int64_t first = sequence.first_position / kBlockTokens;
  const int64_t last = (sequence.first_position + sequence.num_rows - 1) / kBlockTokens;
  return {.first = first, .count = last - first + 1};
}

}  // namespace

int64_t NumKvWriteShares(const KvTarget& target) {
  int64_t num_blocks = 0;
  for (const KvWriteSequence& sequence : target.sequences) num_blocks += BlocksOf(sequence).count;
  return num_blocks * target.num_kv_heads;
}

KvWriteShare KvWriteShareAt(const KvTarget& target, int64_t index) {
  int64_t block = index / target.num_kv_heads;
  for (const KvWriteSequence& sequence : target.sequences) {
    const Blocks blocks = BlocksOf(sequence);
    if (block >= blocks.count) {
      block -= blocks.count;
      continue;
    }
    const int64_t end = sequence.first_position + sequence.num_rows;
    const int64_t first = std::max(sequence.first_position, (blocks.first + block) * kBlockTokens);
    return {.sequence = &sequence,
            .kv_head = index % target.num_kv_heads,
            .first_row = sequence.first_row + first - sequence.first_position,
            .num_rows = std::min(end, (blocks.first + block + 1) * kBlockTokens) - first,
            .first_position = first};
  }
  CHECK(false);
  return {};
}

void WriteKvShare(const KernelContext& context, const KvWriteArgs& args,
                  const KvWriteShare& share) {
  const KvTarget& target = args.target;
  const size_t offset =
      target.record_offset + static_cast<size_t>(share.kv_head) * target.head_stride;
  const int64_t block = share.first_position / kBlockTokens;
  const KvWriteOps& ops = *context.table.kv_write;
  (target.kv_type == KvType::kQ8 ? ops.write_q8 : ops.write_f16)(
      {.k = args.k.row(share.first_row) + share.kv_head * target.head_dim,
       .v = args.v.row(share.first_row) + share.kv_head * target.head_dim,
       .k_stride = args.k.stride(),
       .v_stride = args.v.stride(),
       .num_rows = static_cast<int>(share.num_rows),
       .first_token = static_cast<int>(share.first_position % kBlockTokens),
       .head_dim = target.head_dim,
       .record = share.sequence->blocks[block] + offset});
}

void CheckKvWriteArgs(const KvWriteArgs& args) {
  const KvTarget& target = args.target;
  CHECK(target.head_dim > 0 && target.head_dim % 16 == 0);
  CHECK_GT(target.num_kv_heads, 0);
  CHECK_EQ(args.k.cols(), int64_t{target.num_kv_heads} * target.head_dim);
  CHECK_EQ(args.v.cols(), args.k.cols());
  CHECK_EQ(args.v.rows(), args.k.rows());
  for (const KvWriteSequence& sequence : target.sequences) {
    CHECK_GE(sequence.num_rows, 0);
    CHECK_GE(sequence.first_row, 0);
    CHECK_GE(sequence.first_position, 0);
    CHECK_LE(sequence.first_row + sequence.num_rows, args.k.rows());
  }
}

void WriteKv(const KernelContext& context, const KvWriteArgs& args) {
  CheckKvWriteArgs(args);
  context.pool.ParallelFor(NumKvWriteShares(args.target), [&](int64_t index, int) {
    WriteKvShare(context, args, KvWriteShareAt(args.target, index));
  });
}

}  // namespace baton
