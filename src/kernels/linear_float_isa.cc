#include "kernels/linear.inl.h"
#include "kernels/linear_tables.inl.h"

namespace baton::BATON_ISA {

constexpr LinearTiles kTilesF16 = MakeTiles<PanelType::kF16>();
constexpr LinearTiles kTilesBF16 = MakeTiles<PanelType::kBF16>();
constexpr LinearTiles kTilesF32 = MakeTiles<PanelType::kF32>();

}  // namespace baton::BATON_ISA
