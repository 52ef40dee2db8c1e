// The tables that the *_isa.cc files of the linear kernels define, one file for a few types each.
#pragma once

#include "kernels/f32x16.h"
#include "kernels/linear_ops.h"

namespace baton::BATON_ISA {

extern const QuantizeRowFn kQuantizeRow[kNumPrecisions];
extern const LinearKernels kLinearQ4_0;
extern const LinearKernels kLinearQ4_1;
extern const LinearKernels kLinearQ5_0;
extern const LinearKernels kLinearQ5_1;
extern const LinearKernels kLinearQ8_0;
extern const LinearKernels kLinearQ2_K;
extern const LinearKernels kLinearQ3_K;
extern const LinearKernels kLinearQ4_K;
extern const LinearKernels kLinearQ5_K;
extern const LinearKernels kLinearQ6_K;
extern const LinearKernels kLinearF16;
extern const LinearKernels kLinearBF16;
extern const LinearKernels kLinearF32;

}  // namespace baton::BATON_ISA
