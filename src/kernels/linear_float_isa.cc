#include "kernels/linear_many.inl.h"
#include "kernels/linear_tables.inl.h"

namespace baton::BATON_ISA {

constexpr LinearKernels kLinearF16 = MakeLinearKernels<PanelType::kF16>();
constexpr LinearKernels kLinearBF16 = MakeLinearKernels<PanelType::kBF16>();
constexpr LinearKernels kLinearF32 = MakeLinearKernels<PanelType::kF32>();

}  // namespace baton::BATON_ISA
