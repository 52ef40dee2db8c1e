#include "kv/block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/rng.h"

namespace baton {

// Spoils the books, to show that CheckIntegrity notices.
class BlockPoolPeer {
 public:
  static std::vector<int32_t>& FreeList(BlockPool& pool) { return pool.free_; }
  static void SetReferences(BlockPool& pool, BlockId block, int32_t count) {
    pool.At(block).num_references = count;
  }
};

namespace {

using ::testing::HasSubstr;

BlockLayout SmallLayout() {
  return BlockLayout::Make({.num_layers = 2, .num_kv_heads = 1, .head_dim = 16}).value();
}

BlockPool MakePool(int32_t num_blocks) {
  return BlockPool::Make(SmallLayout(), num_blocks).value();
}

bool IsZero(const BlockPool& pool, BlockId block) {
  const std::byte* data = pool.Data(block);
  return std::all_of(data, data + pool.layout().block_bytes(),
                     [](std::byte b) { return b == std::byte{0}; });
}

TEST(BlockPool, RefusesImpossibleSizes) {
  for (const int32_t count : {0, -1, BlockPool::kMaxBlocks + 1}) {
    const auto pool = BlockPool::Make(SmallLayout(), count);
    ASSERT_FALSE(pool.has_value());
    EXPECT_EQ(pool.error().code, ErrorCode::kInvalid);
  }
}

TEST(BlockPool, MoreThanTheMachineHasIsExhaustedWithNumbers) {
  const auto layout =
      BlockLayout::Make({.num_layers = 1024, .num_kv_heads = 1024, .head_dim = 1024}).value();
  const auto pool = BlockPool::Make(layout, BlockPool::kMaxBlocks);
  ASSERT_FALSE(pool.has_value());
  EXPECT_EQ(pool.error().code, ErrorCode::kExhausted);
  EXPECT_THAT(pool.error().message, HasSubstr("16777216 blocks of 283534950400 bytes"));
}

TEST(BlockPool, TakesMemoryOnlyWhenUsed) {
  rusage before = {};
  getrusage(RUSAGE_SELF, &before);
  const auto layout =
      BlockLayout::Make({.num_layers = 16, .num_kv_heads = 8, .head_dim = 64}).value();
  const auto pool = BlockPool::Make(layout, 512);  // 1.1 GB
  ASSERT_TRUE(pool.has_value());
  rusage after = {};
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 64 * 1024) << "KiB";
}

TEST(BlockPool, FullIsExhaustedWithNumbers) {
  BlockPool pool = MakePool(2);
  ASSERT_TRUE(pool.Allocate().has_value());
  ASSERT_TRUE(pool.Allocate().has_value());
  const auto third = pool.Allocate();
  ASSERT_FALSE(third.has_value());
  EXPECT_EQ(third.error().code, ErrorCode::kExhausted);
  EXPECT_THAT(third.error().message, HasSubstr("all 2 blocks of 64 tokens"));
}

TEST(BlockPool, BlocksAreZeroedAlignedAndApart) {
  BlockPool pool = MakePool(8);
  for (int round = 0; round < 3; ++round) {
    std::vector<BlockId> blocks;
    for (int i = 0; i < 8; ++i) {
      blocks.push_back(pool.Allocate().value());
      EXPECT_TRUE(IsZero(pool, blocks.back()));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(pool.Data(blocks.back())) % 64, 0u);
      // NaN in every half: what a stale block must never show to the next owner.
      std::memset(pool.Data(blocks.back()), 0xff, pool.layout().block_bytes());
    }
    for (const BlockId block : blocks) pool.Release(block);
  }
}

TEST(BlockPool, GenerationGrowsAtEachFreeOnly) {
  BlockPool pool = MakePool(1);
  const BlockId block = pool.Allocate().value();
  EXPECT_EQ(pool.generation(block), 0u);
  pool.Share(block);
  pool.Release(block);
  EXPECT_EQ(pool.generation(block), 0u);
  pool.Release(block);
  EXPECT_EQ(pool.generation(block), 1u);
  ASSERT_EQ(pool.Allocate().value(), block);
  EXPECT_EQ(pool.generation(block), 1u);
}

// Random use against a plain map of references.
TEST(BlockPool, AgreesWithAModel) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    RandomStream random({.seed = seed, .stream = 0});
    BlockPool pool = MakePool(12);
    std::map<BlockId, int> model;
    std::map<BlockId, uint64_t> frees;
    for (int step = 0; step < 500; ++step) {
      const uint64_t action = random.NextBelow(3);
      auto chosen = model.begin();
      if (!model.empty()) std::advance(chosen, random.NextBelow(model.size()));
      if (action == 0) {
        const auto block = pool.Allocate();
        ASSERT_EQ(block.has_value(), model.size() < 12) << "seed " << seed << " step " << step;
        if (block) {
          ASSERT_TRUE(model.emplace(*block, 1).second);
          ASSERT_TRUE(IsZero(pool, *block));
          std::memset(pool.Data(*block), 0x5a, 64);
        }
      } else if (!model.empty() && action == 1) {
        pool.Share(chosen->first);
        ++chosen->second;
      } else if (!model.empty()) {
        pool.Release(chosen->first);
        if (--chosen->second == 0) {
          ++frees[chosen->first];
          model.erase(chosen);
        }
      }
      ASSERT_TRUE(pool.CheckIntegrity().has_value());
      ASSERT_EQ(pool.num_owned(), static_cast<int32_t>(model.size()));
      for (int32_t i = 0; i < 12; ++i) {
        const auto it = model.find({i});
        ASSERT_EQ(pool.num_references({i}), it == model.end() ? 0 : it->second);
        ASSERT_EQ(pool.generation({i}), frees[{i}]);
      }
    }
    for (const auto& [block, references] : model) {
      for (int i = 0; i < references; ++i) pool.Release(block);
    }
    EXPECT_EQ(pool.num_free(), 12);
    EXPECT_TRUE(pool.CheckIntegrity().has_value());
  }
}

TEST(BlockPool, IntegrityCheckNoticesSpoiledBooks) {
  const auto message_after = [](auto spoil) {
    BlockPool pool = MakePool(4);
    const BlockId block = pool.Allocate().value();
    EXPECT_TRUE(pool.CheckIntegrity().has_value());
    spoil(pool, block);
    const auto result = pool.CheckIntegrity();
    return result ? std::string("all well") : result.error().message;
  };
  EXPECT_THAT(message_after([](BlockPool& pool, BlockId block) {
                BlockPoolPeer::FreeList(pool).push_back(block.index);
              }),
              HasSubstr("1 references and is on the free list"));
  EXPECT_THAT(message_after([](BlockPool& pool, BlockId) {
                BlockPoolPeer::FreeList(pool).push_back(BlockPoolPeer::FreeList(pool)[0]);
              }),
              HasSubstr("twice"));
  EXPECT_THAT(
      message_after([](BlockPool& pool, BlockId) { BlockPoolPeer::FreeList(pool).pop_back(); }),
      HasSubstr("0 references and is not on the free list"));
  EXPECT_THAT(
      message_after([](BlockPool& pool, BlockId) { BlockPoolPeer::FreeList(pool)[0] = 99; }),
      HasSubstr("block 99 of 4"));
  EXPECT_THAT(message_after([](BlockPool& pool, BlockId block) {
                BlockPoolPeer::SetReferences(pool, block, -1);
              }),
              HasSubstr("-1 references"));
}

TEST(BlockPoolDeathTest, MisuseAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  BlockPool pool = MakePool(2);
  const BlockId block = pool.Allocate().value();
  EXPECT_DEATH(pool.Release(BlockId{}), "CHECK failed");
  EXPECT_DEATH(pool.Data({2}), "CHECK failed");
  pool.Release(block);
  EXPECT_DEATH(pool.Release(block), "CHECK failed");
  EXPECT_DEATH(pool.Share(block), "CHECK failed");
  EXPECT_DEATH(pool.Data(block), "CHECK failed");
}

}  // namespace
}  // namespace baton
