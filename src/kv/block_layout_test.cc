#include "kv/block_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using ::testing::HasSubstr;

BlockLayout MakeLayout(const KvShape& shape) {
  return BlockLayout::Make(shape).value();
}

// 256·d bytes of K and V, 8·d of means and 64 for the far keys, for each layer and KV head.
TEST(BlockLayout, SizesFollowTheFormula) {
  const BlockLayout smol = MakeLayout({.num_layers = 30, .num_kv_heads = 3, .head_dim = 64});
  EXPECT_EQ(smol.head_stride(), 256u * 64 + 8 * 64 + 64);
  EXPECT_EQ(smol.block_bytes(), 30u * 3 * (264 * 64 + 64));
  const BlockLayout gemma = MakeLayout({.num_layers = 18, .num_kv_heads = 1, .head_dim = 256});
  EXPECT_EQ(gemma.block_bytes(), 18u * (264 * 256 + 64));
}

TEST(BlockLayout, RecordsFollowEachOtherOnCacheLines) {
  for (const int head_dim : {16, 32, 48, 64, 80, 96, 128, 256}) {
    const BlockLayout layout =
        MakeLayout({.num_layers = 3, .num_kv_heads = 2, .head_dim = head_dim});
    size_t expected = 0;
    for (int layer = 0; layer < 3; ++layer) {
      for (int head = 0; head < 2; ++head) {
        EXPECT_EQ(layout.RecordOffset(layer, head), expected);
        EXPECT_EQ(layout.RecordOffset(layer, head) % 64, 0u);
        EXPECT_EQ(layout.StatisticsOffset(layer, head), expected + 256u * head_dim);
        EXPECT_EQ(layout.StatisticsOffset(layer, head) % 64, 0u);
        expected += 264u * head_dim + 64u;
      }
    }
    EXPECT_EQ(layout.block_bytes(), expected);
  }
}

// Every element has a place of its own inside the record, also where the last slab of V is narrow.
TEST(BlockLayout, ElementsDoNotOverlap) {
  for (const int head_dim : {16, 64, 80, 96, 112, 192}) {
    const KvRecord record =
        MakeLayout({.num_layers = 1, .num_kv_heads = 1, .head_dim = head_dim}).record();
    std::vector<int> uses(record.StatisticsOffsetBytes() / 2, 0);
    for (int c = 0; c < head_dim; ++c) {
      for (int t = 0; t < kBlockTokens; ++t) {
        ++uses.at(record.KeyIndex(c, t));
        ++uses.at(record.ValueIndex(c, t));
      }
    }
    EXPECT_EQ(uses, std::vector<int>(uses.size(), 1)) << head_dim;
  }
}

TEST(BlockLayout, RefusesWhatNoModelHas) {
  const KvShape good = {.num_layers = 2, .num_kv_heads = 2, .head_dim = 64};
  KvShape shape = good;
  shape.num_layers = 0;
  EXPECT_THAT(BlockLayout::Make(shape).error().message,
              HasSubstr("layers must be in 1..1024, got 0"));
  shape = good;
  shape.num_kv_heads = -3;
  EXPECT_THAT(BlockLayout::Make(shape).error().message, HasSubstr("got -3"));
  shape = good;
  shape.head_dim = 1 << 20;
  EXPECT_THAT(BlockLayout::Make(shape).error().message, HasSubstr("head dimension"));
  shape = good;
  shape.head_dim = 72;
  const auto layout = BlockLayout::Make(shape);
  ASSERT_FALSE(layout.has_value());
  EXPECT_EQ(layout.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(layout.error().message, HasSubstr("multiple of 16, got 72"));
}

TEST(BlockLayout, CountsBlocksForTokens) {
  EXPECT_EQ(NumBlocksFor(0), 0);
  EXPECT_EQ(NumBlocksFor(1), 1);
  EXPECT_EQ(NumBlocksFor(64), 1);
  EXPECT_EQ(NumBlocksFor(65), 2);
  EXPECT_EQ(NumBlocksFor(INT64_MAX), INT64_MAX / 64 + 1);
}

}  // namespace
}  // namespace baton
