#include "tensor/dtype.h"

#include <array>
#include <limits>

#include "base/check.h"

namespace baton {
namespace {

constexpr std::array kTraits = {
    DTypeTraits{DType::kF32, "F32", 1, 4, true},
    DTypeTraits{DType::kF16, "F16", 1, 2, true},
    DTypeTraits{DType::kQ4_0, "Q4_0", 32, 18, true},
    DTypeTraits{DType::kQ4_1, "Q4_1", 32, 20, true},
    DTypeTraits{DType::kQ5_0, "Q5_0", 32, 22, true},
    DTypeTraits{DType::kQ5_1, "Q5_1", 32, 24, true},
    DTypeTraits{DType::kQ8_0, "Q8_0", 32, 34, true},
    DTypeTraits{DType::kQ8_1, "Q8_1", 32, 36, false},
    DTypeTraits{DType::kQ2_K, "Q2_K", 256, 84, true},
    DTypeTraits{DType::kQ3_K, "Q3_K", 256, 110, true},
    DTypeTraits{DType::kQ4_K, "Q4_K", 256, 144, true},
    DTypeTraits{DType::kQ5_K, "Q5_K", 256, 176, true},
    DTypeTraits{DType::kQ6_K, "Q6_K", 256, 210, true},
    DTypeTraits{DType::kQ8_K, "Q8_K", 256, 292, false},
    DTypeTraits{DType::kIQ2_XXS, "IQ2_XXS", 256, 66, false},
    DTypeTraits{DType::kIQ2_XS, "IQ2_XS", 256, 74, false},
    DTypeTraits{DType::kIQ3_XXS, "IQ3_XXS", 256, 98, false},
    DTypeTraits{DType::kIQ1_S, "IQ1_S", 256, 50, false},
    DTypeTraits{DType::kIQ4_NL, "IQ4_NL", 32, 18, false},
    DTypeTraits{DType::kIQ3_S, "IQ3_S", 256, 110, false},
    DTypeTraits{DType::kIQ2_S, "IQ2_S", 256, 82, false},
    DTypeTraits{DType::kIQ4_XS, "IQ4_XS", 256, 136, false},
    DTypeTraits{DType::kI8, "I8", 1, 1, false},
    DTypeTraits{DType::kI16, "I16", 1, 2, false},
    DTypeTraits{DType::kI32, "I32", 1, 4, false},
    DTypeTraits{DType::kI64, "I64", 1, 8, false},
    DTypeTraits{DType::kF64, "F64", 1, 8, false},
    DTypeTraits{DType::kIQ1_M, "IQ1_M", 256, 56, false},
    DTypeTraits{DType::kBF16, "BF16", 1, 2, true},
    DTypeTraits{DType::kTQ1_0, "TQ1_0", 256, 54, false},
    DTypeTraits{DType::kTQ2_0, "TQ2_0", 256, 66, false},
    DTypeTraits{DType::kMXFP4, "MXFP4", 32, 17, false},
    DTypeTraits{DType::kNVFP4, "NVFP4", 64, 36, false},
    DTypeTraits{DType::kQ1_0, "Q1_0", 128, 18, false},
};

}  // namespace

std::span<const DTypeTraits> AllDTypes() {
  return kTraits;
}

const DTypeTraits& TraitsOf(DType type) {
  for (const DTypeTraits& traits : kTraits) {
    if (traits.type == type) return traits;
  }
  CHECK_EQ(static_cast<uint32_t>(type), static_cast<uint32_t>(DType::kF32));
  return kTraits.front();
}

std::optional<DType> DTypeFromGgufId(uint32_t id) {
  for (const DTypeTraits& traits : kTraits) {
    if (static_cast<uint32_t>(traits.type) == id) return traits.type;
  }
  return std::nullopt;
}

std::optional<std::string_view> WithdrawnDTypeName(uint32_t id) {
  switch (id) {
    case 4:
      return "Q4_2";
    case 5:
      return "Q4_3";
    case 31:
      return "Q4_0_4_4";
    case 32:
      return "Q4_0_4_8";
    case 33:
      return "Q4_0_8_8";
    case 36:
      return "IQ4_NL_4_4";
    case 37:
      return "IQ4_NL_4_8";
    case 38:
      return "IQ4_NL_8_8";
    default:
      return std::nullopt;
  }
}

std::optional<uint64_t> RowBytes(DType type, uint64_t num_elements) {
  const DTypeTraits& traits = TraitsOf(type);
  if (num_elements % traits.block_elements != 0) return std::nullopt;
  const uint64_t num_blocks = num_elements / traits.block_elements;
  if (num_blocks > std::numeric_limits<uint64_t>::max() / traits.block_bytes) return std::nullopt;
  return num_blocks * traits.block_bytes;
}

}  // namespace baton
