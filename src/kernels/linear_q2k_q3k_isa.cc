#include "kernels/linear.inl.h"
#include "kernels/linear_tables.inl.h"

namespace baton::BATON_ISA {

constexpr LinearTiles kTilesQ2_K = MakeTiles<PanelType::kQ2_K>();
constexpr LinearTiles kTilesQ3_K = MakeTiles<PanelType::kQ3_K>();

}  // namespace baton::BATON_ISA
