#include "kernels/linear.inl.h"
#include "kernels/linear_tables.inl.h"

namespace baton::BATON_ISA {

constexpr LinearTiles kTilesQ5_0 = MakeTiles<PanelType::kQ5_0>();
constexpr LinearTiles kTilesQ5_1 = MakeTiles<PanelType::kQ5_1>();

}  // namespace baton::BATON_ISA
