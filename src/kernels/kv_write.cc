#include "kernels/kv_write.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/kv_write_ops.h"
#include "tensor/kv_record.h"

namespace baton {
namespace {

// The rows of one sequence for one KV head, block by block.
void WriteSequence(const KernelContext& context, const KvWriteArgs& args,
                   const KvWriteSequence& sequence, int64_t head) {
  const size_t offset = args.record_offset + static_cast<size_t>(head) * args.head_stride;
  for (int64_t done = 0; done < sequence.num_rows;) {
    const int64_t position = sequence.first_position + done;
    const int first_token = static_cast<int>(position % kBlockTokens);
    const int count =
        static_cast<int>(std::min<int64_t>(kBlockTokens - first_token, sequence.num_rows - done));
    context.table.kv_write->write(
        {.k = args.k.row(sequence.first_row + done) + head * args.head_dim,
         .v = args.v.row(sequence.first_row + done) + head * args.head_dim,
         .k_stride = args.k.stride(),
         .v_stride = args.v.stride(),
         .num_rows = count,
         .first_token = first_token,
         .head_dim = args.head_dim,
         .record = reinterpret_cast<uint16_t*>(sequence.blocks[position / kBlockTokens] + offset)});
    done += count;
  }
}

}  // namespace

void WriteKv(const KernelContext& context, const KvWriteArgs& args) {
  CHECK(args.head_dim > 0 && args.head_dim % 16 == 0);
  CHECK_GT(args.num_kv_heads, 0);
  CHECK_EQ(args.k.cols(), int64_t{args.num_kv_heads} * args.head_dim);
  CHECK_EQ(args.v.cols(), args.k.cols());
  CHECK_EQ(args.v.rows(), args.k.rows());
  for (const KvWriteSequence& sequence : args.sequences) {
    CHECK_GE(sequence.num_rows, 0);
    CHECK_GE(sequence.first_row, 0);
    CHECK_GE(sequence.first_position, 0);
    CHECK_LE(sequence.first_row + sequence.num_rows, args.k.rows());
  }
  const int64_t num_sequences = static_cast<int64_t>(args.sequences.size());
  context.pool.ParallelFor(num_sequences * args.num_kv_heads, [&](int64_t task, int) {
    WriteSequence(context, args, args.sequences[static_cast<size_t>(task / args.num_kv_heads)],
                  task % args.num_kv_heads);
  });
}

}  // namespace baton
