#include "kernels/linear_many.inl.h"
#include "kernels/linear_tables.inl.h"

namespace baton::BATON_ISA {

constexpr LinearKernels kLinearQ5_0 = MakeLinearKernels<PanelType::kQ5_0>();
constexpr LinearKernels kLinearQ5_1 = MakeLinearKernels<PanelType::kQ5_1>();

}  // namespace baton::BATON_ISA
