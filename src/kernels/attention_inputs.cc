#include "kernels/attention_inputs.h"

#include "base/check.h"
#include "kernels/row_kernel_ops.h"

namespace baton {
namespace {

// One of q, k, v, as one of its heads sees it.
struct Projection {
  View2<float> rows;
  View1<const float> bias;
  View1<const float> norm;
};

class HeadWork {
 public:
  HeadWork(const KernelContext& context, const AttentionInputsArgs& args)
      : args_(args),
        ops_(*context.table.rows),
        rotate_(args.rope.layout() == RopeLayout::kHalves ? ops_.rotate_halves
                                                          : ops_.rotate_pairs) {}

  // Bias, norm and RoPE of one head of one row.
  void Turn(const Projection& projection, int64_t row, int64_t head) const {
    float* x = AddBias(projection, row, head);
    if (!projection.norm.empty()) {
      ops_.rms_norm(x, projection.norm.data(), args_.target.head_dim, args_.norm_eps, x);
    }
    rotate_(args_.cos_sin.row(row), args_.rope.rotary_dim(), x);
  }

  float* AddBias(const Projection& projection, int64_t row, int64_t head) const {
    const int64_t first = head * args_.target.head_dim;
    float* x = projection.rows.row(row) + first;
    if (!projection.bias.empty()) {
      ops_.add(x, projection.bias.data() + first, args_.target.head_dim, x);
    }
    return x;
  }

 private:
  const AttentionInputsArgs& args_;
  const RowKernelOps& ops_;
  void (*rotate_)(const float* cos_sin, int rotary_dim, float* x);
};

void CheckProjection(const Projection& projection, int head_dim) {
  if (!projection.bias.empty()) CHECK_EQ(projection.bias.size(), projection.rows.cols());
  if (!projection.norm.empty()) CHECK_EQ(projection.norm.size(), head_dim);
}

}  // namespace

void FinishAttentionInputs(const KernelContext& context, const AttentionInputsArgs& args) {
  const KvWriteArgs write = {.k = args.k, .v = args.v, .target = args.target};
  CheckKvWriteArgs(write);
  const Projection q = {.rows = args.q, .bias = args.q_bias, .norm = args.q_norm};
  const Projection k = {.rows = args.k, .bias = args.k_bias, .norm = args.k_norm};
  const Projection v = {.rows = args.v, .bias = args.v_bias, .norm = {}};
  for (const Projection& projection : {q, k, v}) {
    CheckProjection(projection, args.target.head_dim);
  }
  CHECK_EQ(args.q.cols() % args.k.cols(), 0);
  CHECK_EQ(args.q.rows(), args.k.rows());
  CHECK_EQ(args.cos_sin.rows(), args.q.rows());
  CHECK_EQ(args.cos_sin.cols(), args.rope.RowFloats());
  CHECK_EQ(args.rope.head_dim(), args.target.head_dim);
  const int64_t group = args.q.cols() / args.k.cols();

  const HeadWork work(context, args);
  context.pool.ParallelFor(NumKvWriteShares(args.target), [&](int64_t index, int) {
    const KvWriteShare share = KvWriteShareAt(args.target, index);
    for (int64_t row = share.first_row; row < share.first_row + share.num_rows; ++row) {
      for (int64_t i = 0; i < group; ++i) work.Turn(q, row, share.kv_head * group + i);
      work.Turn(k, row, share.kv_head);
      work.AddBias(v, row, share.kv_head);
    }
    WriteKvShare(context, write, share);
  });
}

}  // namespace baton
