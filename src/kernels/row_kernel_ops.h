// The functions of one instruction set behind row_ops.h and rope.h: raw pointers, no checks.
//
// n, width, group: elements; any number, no alignment. out may equal an input.
#pragma once

#include <cstdint>

namespace baton {

struct RowKernelOps {
  void (*rms_norm)(const float* in, const float* weight, int64_t width, float eps, float* out);
  void (*add)(const float* a, const float* b, int64_t n, float* out);
  void (*scale)(const float* in, float factor, int64_t n, float* out);
  void (*gated_silu)(const float* gate, const float* up, int64_t n, float* out);
  void (*gated_gelu)(const float* gate, const float* up, int64_t n, float* out);
  void (*soft_cap)(const float* in, float cap, int64_t n, float* out);
  // x: [rotary_dim], changed in place; cos_sin: [2, rotary_dim], see RopeTable.
  void (*rotate_halves)(const float* cos_sin, int rotary_dim, float* x);
  void (*rotate_pairs)(const float* cos_sin, int rotary_dim, float* x);
};

namespace portable {
extern const RowKernelOps kRowKernelOps;
}
namespace avx2 {
extern const RowKernelOps kRowKernelOps;
}
namespace avx512 {
extern const RowKernelOps kRowKernelOps;
}

}  // namespace baton
