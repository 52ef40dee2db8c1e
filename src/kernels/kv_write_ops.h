// The function of one instruction set behind kernels/kv_write.h: raw pointers, no checks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace baton {

// Consecutive tokens of one block, for one KV head.
struct KvWriteTask {
  const float* k;  // [num_rows][head_dim], k_stride floats apart
  const float* v;  // [num_rows][head_dim], v_stride floats apart
  int64_t k_stride;
  int64_t v_stride;
  int num_rows;     // all within one block
  int first_token;  // within the block
  int head_dim;
  std::byte* record;  // of tensor/kv_record.h
};

struct KvWriteOps {
  // Store the tokens, and the statistics if the last one fills the block.
  void (*write_f16)(const KvWriteTask& task);
  void (*write_q8)(const KvWriteTask& task);
};

namespace portable {
extern const KvWriteOps kKvWriteOps;
}
namespace avx2 {
extern const KvWriteOps kKvWriteOps;
}
namespace avx512 {
extern const KvWriteOps kKvWriteOps;
}

}  // namespace baton
