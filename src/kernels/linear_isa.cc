#include "kernels/linear_tables.inl.h"

namespace baton::BATON_ISA {

// By PanelType.
const LinearOps kLinearOps = {
    .quantize_row = kQuantizeRow,
    .kernels = {&kLinearQ4_0, &kLinearQ4_1, &kLinearQ5_0, &kLinearQ5_1, &kLinearQ8_0, &kLinearQ2_K,
                &kLinearQ3_K, &kLinearQ4_K, &kLinearQ5_K, &kLinearQ6_K, &kLinearF16, &kLinearBF16,
                &kLinearF32},
};

}  // namespace baton::BATON_ISA
