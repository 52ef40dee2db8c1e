#include "kv/block_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "base/rng.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

constexpr int kHeadDim = 16;

BlockPool MakePool(int32_t num_blocks) {
  const auto layout =
      BlockLayout::Make({.num_layers = 1, .num_kv_heads = 1, .head_dim = kHeadDim}).value();
  return BlockPool::Make(layout, num_blocks).value();
}

uint16_t* RecordOf(const BlockPool& pool, BlockId block) {
  return reinterpret_cast<uint16_t*>(pool.Data(block) + pool.layout().RecordOffset(0, 0));
}

// Stands for the forward pass: marks the K and V of one token.
void WriteToken(const BlockPool& pool, const BlockTable& table, int64_t position, uint16_t mark) {
  uint16_t* record = RecordOf(pool, table.blocks()[position / kBlockTokens]);
  const int token = static_cast<int>(position % kBlockTokens);
  const KvRecord layout = pool.layout().record();
  record[layout.KeyIndex(0, token)] = mark;
  record[layout.ValueIndex(kHeadDim - 1, token)] = mark;
}

// The mark of a token, or nothing if K and V differ.
std::optional<uint16_t> ReadToken(const BlockPool& pool, const BlockTable& table,
                                  int64_t position) {
  const uint16_t* record = RecordOf(pool, table.blocks()[position / kBlockTokens]);
  const int token = static_cast<int>(position % kBlockTokens);
  const KvRecord layout = pool.layout().record();
  const uint16_t mark = record[layout.KeyIndex(0, token)];
  if (record[layout.ValueIndex(kHeadDim - 1, token)] != mark) return std::nullopt;
  return mark;
}

TEST(BlockTable, GrowsByWholeBlocks) {
  BlockPool pool = MakePool(4);
  BlockTable table(pool, 1000);
  ASSERT_TRUE(table.Reserve(1).has_value());
  EXPECT_EQ(table.blocks().size(), 1u);
  table.Append(1);
  ASSERT_TRUE(table.Reserve(63).has_value());
  EXPECT_EQ(table.blocks().size(), 1u);
  table.Append(63);
  ASSERT_TRUE(table.Reserve(65).has_value());
  EXPECT_EQ(table.blocks().size(), 3u);
  EXPECT_EQ(table.num_tokens(), 64);
}

TEST(BlockTable, FailedReserveChangesNothing) {
  BlockPool pool = MakePool(3);
  BlockTable table(pool, 1000);
  ASSERT_TRUE(table.Reserve(65).has_value());
  table.Append(65);
  const auto result = table.Reserve(128);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kExhausted);
  EXPECT_THAT(result.error().message,
              HasSubstr("1 of 3 blocks are free, and 128 tokens more would take 2 blocks"));
  EXPECT_EQ(table.blocks().size(), 2u);
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_TRUE(table.Reserve(127).has_value());
}

TEST(BlockTable, ContextIsALimitOfItsOwn) {
  BlockPool pool = MakePool(3);
  BlockTable table(pool, 100);
  const auto result = table.Reserve(101);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kExhausted);
  EXPECT_THAT(result.error().message, HasSubstr("0 tokens and 101 more exceed 100"));
  EXPECT_TRUE(table.Reserve(100).has_value());
  EXPECT_FALSE(table.Reserve(INT64_MAX).has_value());
}

TEST(BlockTable, ForkSharesAndCopiesOnlyThePartlyFilledBlock) {
  BlockPool pool = MakePool(6);
  BlockTable table(pool, 1000);
  ASSERT_TRUE(table.Reserve(200).has_value());  // four blocks
  for (int64_t i = 0; i < 100; ++i) WriteToken(pool, table, i, static_cast<uint16_t>(i + 1));
  table.Append(100);
  BlockTable fork = table.Fork();
  EXPECT_EQ(pool.num_owned(), 4) << "a fork shares what holds tokens, not what is reserved";
  ASSERT_TRUE(fork.Reserve(1).has_value());
  EXPECT_EQ(fork.blocks()[0], table.blocks()[0]);
  EXPECT_NE(fork.blocks()[1], table.blocks()[1]);
  WriteToken(pool, fork, 100, 7777);
  fork.Append(1);
  for (int64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(ReadToken(pool, fork, i), static_cast<uint16_t>(i + 1));
  }
  EXPECT_EQ(ReadToken(pool, table, 100), 0);
  const BlockId own = table.blocks()[1];
  ASSERT_TRUE(table.Reserve(1).has_value());
  EXPECT_EQ(table.blocks()[1], own) << "nobody else holds it any more";
}

TEST(BlockTable, TruncatedIntoASharedBlockCopiesIt) {
  BlockPool pool = MakePool(6);
  BlockTable table(pool, 1000);
  ASSERT_TRUE(table.Reserve(128).has_value());
  table.Append(128);
  BlockTable fork = table.Fork();
  fork.Truncate(70);
  EXPECT_EQ(fork.blocks()[1], table.blocks()[1]);
  ASSERT_TRUE(fork.Reserve(1).has_value());
  EXPECT_NE(fork.blocks()[1], table.blocks()[1]);
  fork.Truncate(64);
  EXPECT_EQ(fork.blocks().size(), 1u);
  fork.Clear();
  table.Clear();
  EXPECT_EQ(pool.num_free(), 6);
}

TEST(BlockTable, ANamedBlockIsCopiedBeforeItIsWritten) {
  BlockPool pool = MakePool(6);
  BlockTable table(pool, 1000);
  ASSERT_TRUE(table.Reserve(64).has_value());
  for (int64_t i = 0; i < 64; ++i) WriteToken(pool, table, i, 500);
  table.Append(64);
  const BlockId named = table.blocks()[0];
  pool.Keep(named);
  table.Truncate(10);
  ASSERT_TRUE(table.Reserve(1).has_value());
  EXPECT_NE(table.blocks()[0], named);
  EXPECT_EQ(ReadToken(pool, table, 9), 500);
  WriteToken(pool, table, 10, 7);
  EXPECT_TRUE(pool.is_cached(named));
  EXPECT_EQ(RecordOf(pool, named)[pool.layout().record().KeyIndex(0, 10)], 500);
}

TEST(BlockTable, AdoptsBlocksInUseAndCachedOnes) {
  BlockPool pool = MakePool(4);
  BlockTable first(pool, 1000);
  ASSERT_TRUE(first.Reserve(128).has_value());
  for (int64_t i = 0; i < 128; ++i) WriteToken(pool, first, i, static_cast<uint16_t>(i + 1));
  first.Append(128);
  const std::vector<BlockId> blocks(first.blocks().begin(), first.blocks().end());
  for (const BlockId block : blocks) pool.Keep(block);
  first.Truncate(64);
  ASSERT_TRUE(pool.is_cached(blocks[1]));

  BlockTable second(pool, 1000);
  second.Adopt(blocks, 127);
  EXPECT_EQ(second.num_tokens(), 127);
  EXPECT_EQ(pool.num_references(blocks[0]), 2);
  EXPECT_EQ(pool.num_references(blocks[1]), 1);
  ASSERT_TRUE(second.Reserve(1).has_value());
  EXPECT_EQ(second.blocks()[0], blocks[0]);
  EXPECT_NE(second.blocks()[1], blocks[1]) << "its 128th token is about to be written";
  for (int64_t i = 0; i < 127; ++i) EXPECT_EQ(ReadToken(pool, second, i), i + 1);
  first.Clear();
  second.Clear();
  EXPECT_EQ(pool.num_free() + pool.num_cached(), 4);
}

TEST(BlockTable, ReplacesABlockByItsTwin) {
  BlockPool pool = MakePool(4);
  BlockTable table(pool, 1000);
  BlockTable other(pool, 1000);
  ASSERT_TRUE(table.Reserve(64).has_value() && other.Reserve(64).has_value());
  table.Append(64);
  other.Append(64);
  table.Replace(0, other.blocks()[0]);
  EXPECT_EQ(table.blocks()[0], other.blocks()[0]);
  EXPECT_EQ(pool.num_owned(), 1);
  const BlockTable* all[] = {&table, &other};
  EXPECT_TRUE(CheckReferences(pool, all).has_value());
}

TEST(BlockTable, GivesItsLastBlocksBackFirst) {
  BlockPool pool = MakePool(4);
  BlockTable table(pool, 1000);
  ASSERT_TRUE(table.Reserve(256).has_value());
  table.Append(256);
  const std::vector<BlockId> blocks(table.blocks().begin(), table.blocks().end());
  for (const BlockId block : blocks) pool.Keep(block);
  table.Clear();
  std::vector<BlockId> by_age;
  for (auto at = pool.OldestCached(); at; at = pool.NextCached(*at)) by_age.push_back(*at);
  EXPECT_EQ(by_age, std::vector(blocks.rbegin(), blocks.rend()));
}

TEST(BlockTable, MovesWithItsReferences) {
  BlockPool pool = MakePool(4);
  BlockTable table(pool, 1000);
  ASSERT_TRUE(table.Reserve(100).has_value());
  table.Append(100);
  BlockTable moved = std::move(table);
  EXPECT_EQ(moved.num_tokens(), 100);
  BlockTable other(pool, 1000);
  ASSERT_TRUE(other.Reserve(64).has_value());
  other = std::move(moved);
  EXPECT_EQ(pool.num_owned(), 2);
  EXPECT_TRUE(other.Reserve(1).has_value());
  const BlockTable* all[] = {&other};
  EXPECT_TRUE(CheckReferences(pool, all).has_value());
}

TEST(BlockTable, ReferenceCheckNoticesAMissingTable) {
  BlockPool pool = MakePool(4);
  BlockTable table(pool, 1000);
  ASSERT_TRUE(table.Reserve(1).has_value());
  const auto result = CheckReferences(pool, {});
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error().message, HasSubstr("block 0 counts 1 references, the tables hold 0"));
}

TEST(BlockTableDeathTest, AppendNeedsReserve) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  BlockPool pool = MakePool(4);
  BlockTable table(pool, 1000);
  EXPECT_DEATH(table.Append(1), "CHECK failed");
  ASSERT_TRUE(table.Reserve(10).has_value());
  table.Append(10);
  BlockTable fork = table.Fork();
  EXPECT_DEATH(table.Append(1), "CHECK failed");
  EXPECT_DEATH(fork.Append(1), "CHECK failed");
  EXPECT_DEATH(table.Truncate(11), "CHECK failed");
  EXPECT_DEATH(table.Adopt(fork.blocks(), 10), "CHECK failed");
  EXPECT_DEATH(table.Replace(1, fork.blocks()[0]), "CHECK failed");
}

// Tables and, beside them, what their tokens should hold.
class RandomTables {
 public:
  explicit RandomTables(uint64_t seed)
      : random_({.seed = seed, .stream = 0}), pool_(MakePool(kBlocks)) {}

  void Step() {
    const uint64_t action = random_.NextBelow(8);
    if (tables_.empty() || (action == 0 && tables_.size() < kMaxTables)) {
      tables_.push_back({std::make_unique<BlockTable>(pool_, kMaxTokens), {}});
      return;
    }
    const size_t chosen = random_.NextBelow(tables_.size());
    if (action <= 4) return Grow(tables_[chosen]);
    if (action == 5) return Cut(tables_[chosen]);
    if (action == 6 && tables_.size() < kMaxTables) return Fork(tables_[chosen]);
    if (action == 7) tables_.erase(tables_.begin() + static_cast<std::ptrdiff_t>(chosen));
  }

  void Check() {
    ASSERT_TRUE(pool_.CheckIntegrity().has_value());
    std::vector<const BlockTable*> all;
    for (const Entry& entry : tables_) all.push_back(entry.table.get());
    const auto references = CheckReferences(pool_, all);
    ASSERT_TRUE(references.has_value()) << references.error().message;
    for (const Entry& entry : tables_) {
      ASSERT_EQ(entry.table->num_tokens(), std::ssize(entry.marks));
      for (int64_t i = 0; i < std::ssize(entry.marks); ++i) {
        ASSERT_EQ(ReadToken(pool_, *entry.table, i), entry.marks[i]) << "token " << i;
      }
    }
  }

  void End() {
    tables_.clear();
    ASSERT_EQ(pool_.num_free(), kBlocks);
    ASSERT_TRUE(pool_.CheckIntegrity().has_value());
  }

 private:
  static constexpr int32_t kBlocks = 14;
  static constexpr size_t kMaxTables = 5;
  static constexpr int64_t kMaxTokens = 300;

  struct Entry {
    std::unique_ptr<BlockTable> table;
    std::vector<uint16_t> marks;
  };

  void Grow(Entry& entry) {
    const auto wanted = static_cast<int64_t>(random_.NextBelow(90));
    if (!entry.table->Reserve(wanted)) return;
    const auto written = static_cast<int64_t>(random_.NextBelow(wanted + 1));
    for (int64_t i = 0; i < written; ++i) {
      const auto mark = static_cast<uint16_t>(1 + random_.NextBelow(60000));
      WriteToken(pool_, *entry.table, std::ssize(entry.marks), mark);
      entry.marks.push_back(mark);
    }
    entry.table->Append(written);
  }
  void Cut(Entry& entry) {
    const uint64_t kept = random_.NextBelow(entry.marks.size() + 1);
    entry.table->Truncate(static_cast<int64_t>(kept));
    entry.marks.resize(kept);
  }
  void Fork(Entry& entry) {
    Entry fork = {std::make_unique<BlockTable>(entry.table->Fork()), entry.marks};
    tables_.push_back(std::move(fork));
  }

  RandomStream random_;
  BlockPool pool_;
  std::vector<Entry> tables_;
};

TEST(BlockTable, RandomUseKeepsEveryTokenAndEveryReference) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    RandomTables tables(seed);
    for (int step = 0; step < 300; ++step) {
      tables.Step();
      ASSERT_NO_FATAL_FAILURE(tables.Check()) << "seed " << seed << " step " << step;
    }
    ASSERT_NO_FATAL_FAILURE(tables.End());
  }
}

}  // namespace
}  // namespace baton
