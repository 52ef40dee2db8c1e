#include "kernels/linear_many.inl.h"
#include "kernels/linear_tables.inl.h"

namespace baton::BATON_ISA {

constexpr LinearKernels kLinearQ6_K = MakeLinearKernels<PanelType::kQ6_K>();

}  // namespace baton::BATON_ISA
