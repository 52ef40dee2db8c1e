#include "kernels/linear_many.inl.h"
#include "kernels/linear_tables.inl.h"

namespace baton::BATON_ISA {

constexpr LinearKernels kLinearQ4_0 = MakeLinearKernels<PanelType::kQ4_0>();

}  // namespace baton::BATON_ISA
