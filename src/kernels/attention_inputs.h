// What comes between the matrices of q, k and v and attention: biases, the norms of heads, RoPE,
// and the new keys and values on their way into the cache.
//
// One pass, head by head and cache block by cache block. The operations and their order are those
// of AddBias, RmsNorm, ApplyRope and WriteKv one after the other, so the bits are, too.
#pragma once

#include "kernels/kernel_context.h"
#include "kernels/kv_write.h"
#include "kernels/rope.h"
#include "tensor/view.h"

namespace baton {

// Shapes: q: [num_rows, num_heads * head_dim] f32; write.k, write.v: see kv_write.h. All three are
// changed in place.
struct AttentionInputsArgs {
  View2<float> q;
  View2<float> k;
  View2<float> v;
  View1<const float> q_bias;  // [columns of q]; empty: none
  View1<const float> k_bias;
  View1<const float> v_bias;
  View1<const float> q_norm;  // [head_dim]; empty: none
  View1<const float> k_norm;
  float norm_eps = 0.0f;
  const RopeTable& rope;
  View2<const float> cos_sin;  // as from ComputeRopeRows, a row for each of q
  KvTarget target;
};

// q and k: + bias, norm of each head, RoPE; v: + bias; then k and v are stored as WriteKv stores
// them. Requires: what WriteKv requires; each row belongs to one of the target's sequences.
// Threads: tasks are (sequence, cache block, KV head). Memory: allocates nothing.
void FinishAttentionInputs(const KernelContext& context, const AttentionInputsArgs& args);

}  // namespace baton
