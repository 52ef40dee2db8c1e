#include "tensor/aligned_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace baton {
namespace {

// Sizes around the border where a buffer gets pages of its own.
TEST(AlignedBuffer, IsAlignedZeroedAndWritable) {
  for (const size_t size : {size_t{1}, size_t{63}, size_t{64}, size_t{65}, kHugePageBytes - 1,
                            kHugePageBytes, kHugePageBytes + 1, 3 * kHugePageBytes}) {
    // Twice, so that reused memory is zeroed as well.
    for (int round = 0; round < 2; ++round) {
      Result<AlignedBuffer<uint8_t>> buffer = AlignedBuffer<uint8_t>::Allocate(size);
      ASSERT_TRUE(buffer.has_value());
      ASSERT_EQ(buffer->size(), size);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % kBufferAlignment, 0u);
      if (size >= kHugePageBytes) {
        ASSERT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % kHugePageBytes, 0u);
      }
      ASSERT_EQ(std::count(buffer->begin(), buffer->end(), 0), static_cast<ptrdiff_t>(size));
      std::fill(buffer->begin(), buffer->end(), uint8_t{0xa5});
    }
  }
}

TEST(AlignedBuffer, MovesItsOwnership) {
  AlignedBuffer<float> first = *AlignedBuffer<float>::Allocate(1 << 20);
  first[7] = 3.5f;
  float* const data = first.data();
  AlignedBuffer<float> second = std::move(first);
  EXPECT_EQ(second.data(), data);
  AlignedBuffer<float> third = *AlignedBuffer<float>::Allocate(4);
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.size(), size_t{1} << 20);
  EXPECT_EQ(third[7], 3.5f);
}

TEST(AlignedBuffer, EmptyIsFine) {
  const AlignedBuffer<double> empty = *AlignedBuffer<double>::Allocate(0);
  EXPECT_TRUE(empty.empty());
  EXPECT_TRUE(empty.span().empty());
}

TEST(AlignedBuffer, RefusesWhatNoMachineHas) {
  for (const size_t size : {SIZE_MAX, SIZE_MAX / sizeof(float), kMaxBufferBytes}) {
    const auto buffer = AlignedBuffer<float>::Allocate(size);
    ASSERT_FALSE(buffer.has_value()) << size;
    EXPECT_EQ(buffer.error().code, ErrorCode::kExhausted);
  }
}

}  // namespace
}  // namespace baton
