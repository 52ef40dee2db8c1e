#include "kernels/linear_tables.inl.h"

namespace baton::BATON_ISA {

// By PanelType.
const LinearOps kLinearOps = {
    .quantize_row = kQuantizeRow,
    .tiles = {&kTilesQ4_0, &kTilesQ4_1, &kTilesQ5_0, &kTilesQ5_1, &kTilesQ8_0, &kTilesQ2_K,
              &kTilesQ3_K, &kTilesQ4_K, &kTilesQ5_K, &kTilesQ6_K, &kTilesF16, &kTilesBF16,
              &kTilesF32},
};

}  // namespace baton::BATON_ISA
