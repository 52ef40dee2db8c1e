#include "kernels/linear.inl.h"
#include "kernels/linear_tables.inl.h"

namespace baton::BATON_ISA {

constexpr LinearTiles kTilesQ6_K = MakeTiles<PanelType::kQ6_K>();

}  // namespace baton::BATON_ISA
