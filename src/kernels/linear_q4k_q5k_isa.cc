#include "kernels/linear.inl.h"
#include "kernels/linear_tables.inl.h"

namespace baton::BATON_ISA {

constexpr LinearTiles kTilesQ4_K = MakeTiles<PanelType::kQ4_K>();
constexpr LinearTiles kTilesQ5_K = MakeTiles<PanelType::kQ5_K>();

}  // namespace baton::BATON_ISA
