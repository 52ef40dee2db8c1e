#include "tensor/dtype.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(DType, SizesAreThoseOfTheFormat) {
  // Bytes per block = scales + codes, from the format's description of each type.
  EXPECT_EQ(TraitsOf(DType::kQ4_0).block_bytes, 2u + 32 / 2);
  EXPECT_EQ(TraitsOf(DType::kQ4_1).block_bytes, 2u + 2 + 32 / 2);
  EXPECT_EQ(TraitsOf(DType::kQ5_0).block_bytes, 2u + 32 / 8 + 32 / 2);
  EXPECT_EQ(TraitsOf(DType::kQ5_1).block_bytes, 2u + 2 + 32 / 8 + 32 / 2);
  EXPECT_EQ(TraitsOf(DType::kQ8_0).block_bytes, 2u + 32);
  EXPECT_EQ(TraitsOf(DType::kQ2_K).block_bytes, 16u + 256 / 4 + 2 + 2);
  EXPECT_EQ(TraitsOf(DType::kQ3_K).block_bytes, 256u / 8 + 256 / 4 + 12 + 2);
  EXPECT_EQ(TraitsOf(DType::kQ4_K).block_bytes, 2u + 2 + 12 + 256 / 2);
  EXPECT_EQ(TraitsOf(DType::kQ5_K).block_bytes, 2u + 2 + 12 + 256 / 8 + 256 / 2);
  EXPECT_EQ(TraitsOf(DType::kQ6_K).block_bytes, 256u / 2 + 256 / 4 + 16 + 2);
}

TEST(DType, IdsLeadBackToTheirTypes) {
  for (const DTypeTraits& traits : AllDTypes()) {
    EXPECT_EQ(DTypeFromGgufId(static_cast<uint32_t>(traits.type)), traits.type);
    EXPECT_EQ(TraitsOf(traits.type).name, traits.name);
    EXPECT_FALSE(WithdrawnDTypeName(static_cast<uint32_t>(traits.type)).has_value());
    EXPECT_EQ(IsQuantized(traits.type), traits.block_elements > 1);
  }
  EXPECT_EQ(DTypeFromGgufId(12), DType::kQ4_K);
  EXPECT_EQ(DTypeFromGgufId(30), DType::kBF16);
  EXPECT_EQ(DTypeFromGgufId(9999), std::nullopt);
}

TEST(DType, WithdrawnIdsHaveNoTypeButAName) {
  EXPECT_EQ(DTypeFromGgufId(4), std::nullopt);
  EXPECT_EQ(WithdrawnDTypeName(4), "Q4_2");
  EXPECT_EQ(DTypeFromGgufId(31), std::nullopt);
  EXPECT_EQ(WithdrawnDTypeName(31), "Q4_0_4_4");
}

TEST(DType, RowBytesNeedsWholeBlocksAndNeverWraps) {
  EXPECT_EQ(RowBytes(DType::kQ4_1, 576), 360u);
  EXPECT_EQ(RowBytes(DType::kQ6_K, 2048), 1680u);
  EXPECT_EQ(RowBytes(DType::kQ4_1, 31), std::nullopt);
  EXPECT_EQ(RowBytes(DType::kF32, uint64_t{1} << 62), std::nullopt);
  EXPECT_EQ(RowBytes(DType::kI8, UINT64_MAX), UINT64_MAX);
}

}  // namespace
}  // namespace baton
