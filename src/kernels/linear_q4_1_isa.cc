#include "kernels/linear.inl.h"
#include "kernels/linear_tables.inl.h"

namespace baton::BATON_ISA {

constexpr LinearTiles kTilesQ4_1 = MakeTiles<PanelType::kQ4_1>();

}  // namespace baton::BATON_ISA
