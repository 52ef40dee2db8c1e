#include "kernels/linear_many.inl.h"
#include "kernels/linear_tables.inl.h"

namespace baton::BATON_ISA {

constexpr LinearKernels kLinearQ4_K = MakeLinearKernels<PanelType::kQ4_K>();
constexpr LinearKernels kLinearQ5_K = MakeLinearKernels<PanelType::kQ5_K>();

}  // namespace baton::BATON_ISA
