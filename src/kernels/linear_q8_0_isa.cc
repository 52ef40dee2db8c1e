#include "kernels/linear_many.inl.h"
#include "kernels/linear_tables.inl.h"

namespace baton::BATON_ISA {

constexpr LinearKernels kLinearQ8_0 = MakeLinearKernels<PanelType::kQ8_0>();

}  // namespace baton::BATON_ISA
