#include "kernels/linear_many.inl.h"
#include "kernels/linear_tables.inl.h"

namespace baton::BATON_ISA {

constexpr LinearKernels kLinearQ2_K = MakeLinearKernels<PanelType::kQ2_K>();
constexpr LinearKernels kLinearQ3_K = MakeLinearKernels<PanelType::kQ3_K>();

}  // namespace baton::BATON_ISA
