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
  static auto& At(BlockPool& pool, BlockId block) { return pool.At(block); }
  static int32_t& NumCached(BlockPool& pool) { return pool.num_cached_; }
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

// Page faults tell who waited for memory.
int64_t PageFaults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

TEST(BlockPool, TakenMemoryIsThereAndZero) {
  const auto layout =
      BlockLayout::Make({.num_layers = 8, .num_kv_heads = 4, .head_dim = 64}).value();
  BlockPool pool = BlockPool::Make(layout, 64).value();
  for (int32_t block = 0; block < 32; ++block) pool.TakeMemory(block);
  std::vector<BlockId> blocks;
  for (int i = 0; i < 64; ++i) blocks.push_back(pool.Allocate().value());
  const auto faults_of = [&](int first) {
    const int64_t before = PageFaults();
    for (int i = first; i < first + 32; ++i) {
      std::memset(pool.Data(blocks[static_cast<size_t>(i)]), 1, layout.block_bytes());
    }
    return PageFaults() - before;
  };
  for (int i = 0; i < 32; ++i) EXPECT_TRUE(IsZero(pool, blocks[static_cast<size_t>(i)]));
  const int64_t taken = faults_of(0);
  EXPECT_LT(taken, faults_of(32));
  // What was used is left alone.
  pool.TakeMemory(0);
  EXPECT_EQ(pool.Data(blocks[0])[0], std::byte{1});
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

TEST(BlockPool, KeptBlocksWaitInTheOrderOfBecomingIdle) {
  BlockPool pool = MakePool(4);
  std::vector<BlockId> blocks;
  for (int i = 0; i < 4; ++i) {
    blocks.push_back(pool.Allocate().value());
    if (i < 3) pool.Keep(blocks[i]);
    std::memset(pool.Data(blocks[i]), 0x40 + i, pool.layout().block_bytes());
  }
  for (const int i : {2, 0, 1, 3}) pool.Release(blocks[i]);
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_EQ(pool.num_cached(), 3);
  EXPECT_EQ(pool.num_owned(), 0);
  EXPECT_EQ(pool.OldestCached(), blocks[2]);
  EXPECT_EQ(pool.NextCached(blocks[2]), blocks[0]);
  EXPECT_EQ(pool.NextCached(blocks[1]), std::nullopt);
  EXPECT_LT(pool.IdleSince(blocks[2]), pool.IdleSince(blocks[0]));
  EXPECT_EQ(static_cast<int>(*pool.Data(blocks[0])), 0x40) << "the bytes are kept";

  pool.Share(blocks[2]);
  EXPECT_EQ(pool.num_owned(), 1);
  EXPECT_EQ(static_cast<int>(*pool.Data(blocks[2])), 0x42);
  EXPECT_EQ(pool.generation(blocks[2]), 0u) << "it is still the same life";
  EXPECT_EQ(pool.OldestCached(), blocks[0]);
  pool.Release(blocks[2]);
  EXPECT_EQ(pool.NextCached(blocks[1]), blocks[2]) << "in use a moment ago: the young end";

  pool.Drop(blocks[0]);
  EXPECT_EQ(pool.generation(blocks[0]), 1u);
  EXPECT_EQ(pool.num_free(), 2);
  EXPECT_TRUE(pool.CheckIntegrity().has_value());
  EXPECT_TRUE(IsZero(pool, pool.Allocate().value()));
}

TEST(BlockPool, DroppedWhileOwnedItBecomesFreeAtTheEnd) {
  BlockPool pool = MakePool(2);
  const BlockId block = pool.Allocate().value();
  pool.Keep(block);
  pool.Drop(block);
  EXPECT_FALSE(pool.is_kept(block));
  EXPECT_EQ(pool.num_owned(), 1);
  pool.Release(block);
  EXPECT_EQ(pool.num_free(), 2);
  EXPECT_TRUE(pool.CheckIntegrity().has_value());
}

TEST(BlockPool, IoInFlightKeepsABlockFromBeingChosen) {
  BlockPool pool = MakePool(3);
  std::vector<BlockId> blocks;
  for (int i = 0; i < 3; ++i) {
    blocks.push_back(pool.Allocate().value());
    pool.Keep(blocks[i]);
  }
  for (const BlockId block : blocks) pool.Release(block);
  pool.BeginIo(blocks[0]);
  pool.BeginIo(blocks[0]);
  pool.BeginIo(blocks[1]);
  EXPECT_EQ(pool.OldestCached(), blocks[2]);
  pool.EndIo(blocks[0]);
  EXPECT_EQ(pool.OldestCached(), blocks[2]);
  pool.EndIo(blocks[0]);
  EXPECT_EQ(pool.OldestCached(), blocks[0]);
  EXPECT_EQ(pool.NextCached(blocks[0]), blocks[2]);
  pool.EndIo(blocks[1]);
  EXPECT_TRUE(pool.CheckIntegrity().has_value());
}

// The books of a pool, kept in the plainest way.
struct PoolModel {
  struct Entry {
    int references = 0;
    int io = 0;
    bool kept = false;
  };
  std::map<BlockId, Entry> entries;  // owned and cached
  std::vector<BlockId> idle;         // cached, oldest first
  std::map<BlockId, uint64_t> frees;

  void Free(BlockId block) {
    ++frees[block];
    entries.erase(block);
  }
};

// One random operation on both.
void RandomOperation(BlockPool& pool, PoolModel& model, RandomStream& random) {
  if (model.entries.empty() || random.NextBelow(3) == 0) {
    const auto block = pool.Allocate();
    ASSERT_EQ(block.has_value(), std::ssize(model.entries) < pool.num_blocks());
    if (!block) return;
    ASSERT_TRUE(model.entries.emplace(*block, PoolModel::Entry{.references = 1}).second);
    ASSERT_TRUE(IsZero(pool, *block));
    std::memset(pool.Data(*block), 0x5a, 64);
    return;
  }
  auto chosen = model.entries.begin();
  std::advance(chosen, random.NextBelow(model.entries.size()));
  const BlockId block = chosen->first;
  PoolModel::Entry& entry = chosen->second;
  const bool cached = entry.references == 0;
  switch (random.NextBelow(7)) {
    case 0:
      pool.Share(block);
      if (cached) std::erase(model.idle, block);
      ++entry.references;
      break;
    case 1:
    case 2:
      if (cached || (entry.references == 1 && !entry.kept && entry.io > 0)) return;
      pool.Release(block);
      if (--entry.references > 0) return;
      if (entry.kept) return model.idle.push_back(block);
      model.Free(block);
      break;
    case 3:
      if (cached || entry.kept) return;
      pool.Keep(block);
      entry.kept = true;
      break;
    case 4:
      if (!entry.kept || (cached && entry.io > 0)) return;
      pool.Drop(block);
      entry.kept = false;
      if (!cached) return;
      std::erase(model.idle, block);
      model.Free(block);
      break;
    case 5:
      pool.BeginIo(block);
      ++entry.io;
      break;
    case 6:
      if (entry.io == 0) return;
      pool.EndIo(block);
      --entry.io;
      break;
  }
}

void ExpectAgreement(const BlockPool& pool, PoolModel& model) {
  const auto good = pool.CheckIntegrity();
  ASSERT_TRUE(good.has_value()) << good.error().message;
  ASSERT_EQ(pool.num_cached(), std::ssize(model.idle));
  ASSERT_EQ(pool.num_owned() + pool.num_cached(), std::ssize(model.entries));
  for (int32_t i = 0; i < pool.num_blocks(); ++i) {
    const auto it = model.entries.find({i});
    const PoolModel::Entry entry = it == model.entries.end() ? PoolModel::Entry{} : it->second;
    ASSERT_EQ(pool.num_references({i}), entry.references);
    ASSERT_EQ(pool.num_io_in_flight({i}), entry.io);
    ASSERT_EQ(pool.is_kept({i}), entry.kept);
    ASSERT_EQ(pool.generation({i}), model.frees[{i}]);
  }
  std::vector<BlockId> droppable;
  for (const BlockId block : model.idle) {
    if (model.entries[block].io == 0) droppable.push_back(block);
  }
  std::vector<BlockId> listed;
  for (auto at = pool.OldestCached(); at; at = pool.NextCached(*at)) listed.push_back(*at);
  ASSERT_EQ(listed, droppable);
}

TEST(BlockPool, AgreesWithAModel) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    RandomStream random({.seed = seed, .stream = 0});
    BlockPool pool = MakePool(12);
    PoolModel model;
    for (int step = 0; step < 1000; ++step) {
      ASSERT_NO_FATAL_FAILURE(RandomOperation(pool, model, random));
      ASSERT_NO_FATAL_FAILURE(ExpectAgreement(pool, model)) << "seed " << seed << " step " << step;
    }
    for (const auto& [block, entry] : model.entries) {
      for (int i = 0; i < entry.io; ++i) pool.EndIo(block);
      for (int i = 0; i < entry.references; ++i) pool.Release(block);
    }
    EXPECT_EQ(pool.num_free() + pool.num_cached(), 12) << "idle";
    while (const auto block = pool.OldestCached()) pool.Drop(*block);
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
              HasSubstr("1 references, is on the free list and not cached"));
  EXPECT_THAT(message_after([](BlockPool& pool, BlockId) {
                BlockPoolPeer::FreeList(pool).push_back(BlockPoolPeer::FreeList(pool)[0]);
              }),
              HasSubstr("twice"));
  EXPECT_THAT(
      message_after([](BlockPool& pool, BlockId) { BlockPoolPeer::FreeList(pool).pop_back(); }),
      HasSubstr("0 references, is not on the free list and not cached"));
  EXPECT_THAT(
      message_after([](BlockPool& pool, BlockId) { BlockPoolPeer::FreeList(pool)[0] = 99; }),
      HasSubstr("block 99 of 4"));
  EXPECT_THAT(message_after([](BlockPool& pool, BlockId block) {
                BlockPoolPeer::SetReferences(pool, block, -1);
              }),
              HasSubstr("-1 references"));
}

TEST(BlockPool, IntegrityCheckNoticesASpoiledListOfCachedBlocks) {
  const auto message_after = [](auto spoil) {
    BlockPool pool = MakePool(4);
    std::vector<BlockId> blocks;
    for (int i = 0; i < 3; ++i) {
      blocks.push_back(pool.Allocate().value());
      pool.Keep(blocks[i]);
    }
    for (const BlockId block : blocks) pool.Release(block);
    EXPECT_TRUE(pool.CheckIntegrity().has_value());
    spoil(pool, blocks);
    const auto result = pool.CheckIntegrity();
    return result ? std::string("all well") : result.error().message;
  };
  using Blocks = const std::vector<BlockId>&;
  const auto at = BlockPoolPeer::At;
  EXPECT_THAT(message_after([&](BlockPool& p, Blocks b) { at(p, b[1]).cached = false; }),
              HasSubstr("and not cached"));
  EXPECT_THAT(message_after([&](BlockPool& p, Blocks b) { at(p, b[1]).older = b[2].index; }),
              HasSubstr("names 2 as older"));
  EXPECT_THAT(message_after([&](BlockPool& p, Blocks b) { at(p, b[2]).younger = b[0].index; }),
              HasSubstr("names -1 as older"));
  EXPECT_THAT(message_after([&](BlockPool& p, Blocks b) { at(p, b[0]).younger = 77; }),
              HasSubstr("block 77 of 4"));
  EXPECT_THAT(message_after([&](BlockPool& p, Blocks b) { at(p, b[0]).younger = -1; }),
              HasSubstr("is last, 2 is noted"));
  EXPECT_THAT(message_after([&](BlockPool& p, Blocks b) { at(p, b[2]).idle_since = 2; }),
              HasSubstr("idle since 2 of 3"));
  EXPECT_THAT(message_after([&](BlockPool& p, Blocks b) { at(p, b[2]).kept = false; }),
              HasSubstr("cached and not kept"));
  EXPECT_THAT(message_after([&](BlockPool& p, Blocks b) { at(p, b[2]).num_io_in_flight = -1; }),
              HasSubstr("-1 I/O in flight"));
  EXPECT_THAT(message_after([&](BlockPool& p, Blocks) { at(p, {3}).num_io_in_flight = 1; }),
              HasSubstr("free block 3 has 1 I/O"));
  EXPECT_THAT(message_after([&](BlockPool& p, Blocks) { at(p, {3}).kept = true; }),
              HasSubstr("free and kept"));
  EXPECT_THAT(message_after([&](BlockPool& p, Blocks) { ++BlockPoolPeer::NumCached(p); }),
              HasSubstr("3 marked, 4 counted"));
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
  EXPECT_DEATH(pool.Keep(block), "CHECK failed");
  EXPECT_DEATH(pool.Drop(block), "CHECK failed");
  EXPECT_DEATH(pool.BeginIo(block), "CHECK failed");
  EXPECT_DEATH(pool.EndIo(block), "CHECK failed");
}

TEST(BlockPoolDeathTest, ABlockWithIoInFlightNeverBecomesFree) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  BlockPool pool = MakePool(2);
  const BlockId owned = pool.Allocate().value();
  pool.BeginIo(owned);
  EXPECT_DEATH(pool.Release(owned), "CHECK failed.*num_io_in_flight");
  const BlockId cached = pool.Allocate().value();
  pool.Keep(cached);
  pool.BeginIo(cached);
  pool.Release(cached);
  EXPECT_DEATH(pool.Drop(cached), "CHECK failed.*num_io_in_flight");
}

}  // namespace
}  // namespace baton
