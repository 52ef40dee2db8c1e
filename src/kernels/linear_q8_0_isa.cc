#include "kernels/linear.inl.h"
#include "kernels/linear_tables.inl.h"

namespace baton::BATON_ISA {

constexpr LinearTiles kTilesQ8_0 = MakeTiles<PanelType::kQ8_0>();

}  // namespace baton::BATON_ISA
