#include "kv/prefix_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/test_allocation_count.h"

namespace baton {

// Spoils the entries, to show that CheckIntegrity notices.
class PrefixIndexPeer {
 public:
  static auto& At(PrefixIndex& index, BlockId block) { return index.entries_[block.index]; }
  static int32_t& BucketOf(PrefixIndex& index, BlockId block) {
    return index.buckets_[index.BucketOf(index.entries_[block.index].name)];
  }
  static TokenId& FirstToken(PrefixIndex& index, BlockId block) {
    return index.tokens_[block.index * kBlockTokens];
  }
};

namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr Hash128 kKey = {.low = 1, .high = 2};
constexpr Hash128 kNoSalt = {};
constexpr int64_t kNoLimit = INT64_MAX;

BlockPool MakePool(int32_t num_blocks) {
  const auto layout =
      BlockLayout::Make({.num_layers = 1, .num_kv_heads = 1, .head_dim = 16}).value();
  return BlockPool::Make(layout, num_blocks).value();
}

// Block i of the result is 64 times symbols[i].
std::vector<TokenId> Tokens(const std::vector<TokenId>& symbols) {
  std::vector<TokenId> tokens;
  for (const TokenId symbol : symbols) tokens.insert(tokens.end(), kBlockTokens, symbol);
  return tokens;
}

struct Rig {
  explicit Rig(int32_t num_blocks) : pool(MakePool(num_blocks)), index(pool, {.key = kKey}) {}
  BlockPool pool;
  PrefixIndex index;

  BlockTable Compute(int64_t num_tokens) {
    BlockTable table(pool, 10000);
    EXPECT_TRUE(table.Reserve(num_tokens).has_value());
    table.Append(num_tokens);
    return table;
  }
  int64_t Publish(const std::vector<TokenId>& tokens, BlockTable& table) {
    return index.Publish({.tokens = tokens, .table = table, .salt = kNoSalt, .first_block = 0});
  }
  std::vector<BlockId> Find(const std::vector<TokenId>& tokens, Hash128 salt = kNoSalt) {
    const auto found = index.Find({.tokens = tokens, .salt = salt, .max_blocks = kNoLimit});
    return {found.begin(), found.end()};
  }
  void ExpectIntegrity() {
    EXPECT_TRUE(pool.CheckIntegrity().has_value());
    const auto good = index.CheckIntegrity();
    EXPECT_TRUE(good.has_value()) << good.error().message;
  }
};

TEST(PrefixIndex, FindsWhatWasPublishedAfterItsTableIsGone) {
  Rig rig(8);
  const auto tokens = Tokens({1, 2, 3});
  std::vector<BlockId> blocks;
  {
    BlockTable table = rig.Compute(150);  // the third block is not complete
    EXPECT_EQ(rig.Publish(tokens, table), 2);
    blocks.assign(table.blocks().begin(), table.blocks().end());
  }
  EXPECT_EQ(rig.pool.num_cached(), 2);
  EXPECT_EQ(rig.pool.num_free(), 6);
  blocks.pop_back();
  EXPECT_EQ(rig.Find(tokens), blocks);
  EXPECT_THAT(rig.index.Find({.tokens = tokens, .salt = kNoSalt, .max_blocks = 1}),
              ElementsAreArray({blocks[0]}));
  EXPECT_EQ(rig.Find(Tokens({1, 3})), std::vector{blocks[0]});
  EXPECT_TRUE(rig.Find(Tokens({2, 1})).empty()) << "a block in another place is another block";
  auto cut = tokens;
  cut.resize(127);
  EXPECT_EQ(rig.Find(cut), std::vector{blocks[0]});
  cut.resize(63);
  EXPECT_TRUE(rig.Find(cut).empty());
  auto changed = tokens;
  changed[127] = 9;
  EXPECT_EQ(rig.Find(changed), std::vector{blocks[0]});
  const PrefixCounters& counters = rig.index.counters();
  EXPECT_EQ(counters.queries, 7);
  EXPECT_EQ(counters.queried_tokens, 192 + 192 + 128 + 128 + 127 + 63 + 192);
  EXPECT_EQ(counters.hit_tokens, 64 * (2 + 1 + 1 + 0 + 1 + 0 + 1));
  rig.ExpectIntegrity();
}

TEST(PrefixIndex, OnlyAcceptedTokensAreNamed) {
  Rig rig(8);
  BlockTable table = rig.Compute(128);
  auto tokens = Tokens({1, 2});
  tokens.resize(127);  // the last one is a draft that was not accepted
  EXPECT_EQ(rig.Publish(tokens, table), 1);
  EXPECT_EQ(rig.index.num_entries(), 1);
  table.Truncate(127);
  table.Clear();
  EXPECT_EQ(rig.pool.num_cached(), 1);
}

TEST(PrefixIndex, SaltsKeepSequencesApart) {
  Rig rig(8);
  const auto tokens = Tokens({1, 2});
  const Hash128 salt = {.low = 5, .high = 0};
  BlockTable first = rig.Compute(128);
  rig.Publish(tokens, first);
  EXPECT_TRUE(rig.Find(tokens, salt).empty());
  BlockTable second = rig.Compute(128);
  EXPECT_EQ(rig.index.Publish({.tokens = tokens, .table = second, .salt = salt, .first_block = 0}),
            2);
  EXPECT_NE(rig.Find(tokens, salt), rig.Find(tokens));
  EXPECT_EQ(rig.index.num_entries(), 4);
  EXPECT_NE(rig.index.NameOf(first.blocks()[0]), rig.index.NameOf(second.blocks()[0]));
  rig.ExpectIntegrity();
}

TEST(PrefixIndex, TwoTablesWithOneContentShareIt) {
  Rig rig(8);
  BlockTable first = rig.Compute(192);
  BlockTable second = rig.Compute(192);
  rig.Publish(Tokens({1, 2, 3}), first);
  EXPECT_EQ(rig.pool.num_owned(), 6);
  EXPECT_EQ(rig.Publish(Tokens({1, 2, 4}), second), 3);
  EXPECT_EQ(rig.pool.num_owned(), 4);
  EXPECT_EQ(rig.index.counters().merged_blocks, 2);
  EXPECT_EQ(second.blocks()[1], first.blocks()[1]);
  EXPECT_NE(second.blocks()[2], first.blocks()[2]);
  rig.ExpectIntegrity();
}

TEST(PrefixIndex, EvictsLeavesOfTheLongestIdleFirstAndNothingInUse) {
  Rig rig(8);
  BlockTable first = rig.Compute(192);
  rig.Publish(Tokens({1, 2, 3}), first);
  BlockTable second = rig.Compute(128);
  rig.Publish(Tokens({5, 6}), second);
  BlockTable third(rig.pool, 1000);
  third.Adopt(rig.Find(Tokens({1})), 64);
  first.Clear();
  second.Clear();
  EXPECT_EQ(rig.pool.num_cached(), 4);
  EXPECT_EQ(rig.index.Evict(1), 1);
  EXPECT_EQ(rig.Find(Tokens({1, 2, 3})).size(), 2u);
  EXPECT_EQ(rig.index.Evict(2), 2);
  EXPECT_EQ(rig.Find(Tokens({1, 2, 3})).size(), 1u);
  EXPECT_EQ(rig.Find(Tokens({5, 6})).size(), 1u);
  EXPECT_EQ(rig.index.Evict(9), 1) << "one is in use";
  EXPECT_EQ(rig.index.Evict(1), 0);
  EXPECT_EQ(rig.Find(Tokens({1})).size(), 1u);
  EXPECT_EQ(rig.index.counters().evicted_blocks, 4);
  EXPECT_EQ(rig.pool.num_free(), 7);
  rig.ExpectIntegrity();
}

TEST(PrefixIndex, AncestorsOfABlockWithIoInFlightStay) {
  Rig rig(8);
  BlockTable table = rig.Compute(192);
  rig.Publish(Tokens({1, 2, 3}), table);
  const BlockId middle = table.blocks()[1];
  table.Clear();
  rig.pool.BeginIo(middle);
  EXPECT_EQ(rig.index.Evict(3), 1);
  rig.ExpectIntegrity();
  rig.index.Clear();
  EXPECT_EQ(rig.Find(Tokens({1, 2, 3})).size(), 2u);
  rig.pool.EndIo(middle);
  EXPECT_EQ(rig.index.Evict(3), 2);
  EXPECT_EQ(rig.pool.num_free(), 8);
  rig.ExpectIntegrity();
}

TEST(PrefixIndex, ABlockThatIsBeingSentIsNotMergedAway) {
  Rig rig(8);
  BlockTable first = rig.Compute(64);
  BlockTable second = rig.Compute(64);
  rig.Publish(Tokens({1}), first);
  const BlockId own = second.blocks()[0];
  rig.pool.BeginIo(own);
  EXPECT_EQ(rig.Publish(Tokens({1}), second), 0);
  EXPECT_EQ(second.blocks()[0], own);
  rig.pool.EndIo(own);
  EXPECT_EQ(rig.Publish(Tokens({1}), second), 1);
  EXPECT_EQ(second.blocks()[0], first.blocks()[0]);
}

TEST(PrefixIndex, BlocksSharedBeforeTheyWerePublishedWaitForTheLastHolder) {
  Rig rig(8);
  BlockTable table = rig.Compute(128);
  {
    const BlockTable fork = table.Fork();
    EXPECT_EQ(rig.Publish(Tokens({1, 2}), table), 0);
  }
  EXPECT_EQ(rig.Publish(Tokens({1, 2}), table), 2);
  rig.ExpectIntegrity();
}

TEST(PrefixIndex, ClearForgetsNamesAndTablesGoOn) {
  Rig rig(8);
  BlockTable table = rig.Compute(192);
  rig.Publish(Tokens({1, 2, 3}), table);
  BlockTable other = rig.Compute(128);
  rig.Publish(Tokens({1, 4}), other);
  other.Clear();
  rig.index.Clear();
  EXPECT_EQ(rig.index.num_entries(), 0);
  EXPECT_EQ(rig.pool.num_cached(), 0);
  EXPECT_EQ(rig.pool.num_owned(), 3);
  rig.ExpectIntegrity();
  // The caller still thinks that two blocks are published.
  EXPECT_EQ(rig.index.Publish(
                {.tokens = Tokens({1, 2, 3}), .table = table, .salt = kNoSalt, .first_block = 2}),
            3);
  EXPECT_EQ(rig.Find(Tokens({1, 2, 3})).size(), 3u);
  rig.ExpectIntegrity();
}

TEST(PrefixIndex, EndsWithItsNames) {
  BlockPool pool = MakePool(4);
  BlockTable table(pool, 1000);
  ASSERT_TRUE(table.Reserve(64).has_value());
  table.Append(64);
  {
    PrefixIndex index(pool, {.key = kKey});
    index.Publish({.tokens = Tokens({1}), .table = table, .salt = kNoSalt, .first_block = 0});
    EXPECT_TRUE(pool.is_kept(table.blocks()[0]));
  }
  EXPECT_FALSE(pool.is_kept(table.blocks()[0]));
}

TEST(PrefixIndex, NamesAreTheChainOfHashes) {
  Rig rig(8);
  BlockTable table = rig.Compute(128);
  const auto tokens = Tokens({1, 2});
  rig.Publish(tokens, table);
  Hash128 name = PrefixRoot(kKey, kNoSalt);
  for (int i = 0; i < 2; ++i) {
    // The same bytes through the other interface of the hash.
    Hasher hasher;
    hasher.Add(name.low).Add(name.high);
    hasher.Add(std::as_bytes(std::span(tokens).subspan(i * 64, 64)));
    name = hasher.Finish();
    EXPECT_EQ(rig.index.NameOf(table.blocks()[i]), name);
  }
  EXPECT_EQ(rig.index.ParentOf(table.blocks()[1]), table.blocks()[0]);
  EXPECT_EQ(rig.index.ParentOf(table.blocks()[0]), std::nullopt);
  EXPECT_THAT(rig.index.TokensOf(table.blocks()[1]), ElementsAreArray(Tokens({2})));
  EXPECT_NE(PrefixRoot(kKey, {.low = 1}), PrefixRoot({.low = 1}, kKey));
}

TEST(PrefixIndex, AllocatesNothingAfterItWasMade) {
  Rig rig(8);
  const auto tokens = Tokens({1, 2, 3, 4});
  BlockTable table = rig.Compute(256);
  BlockTable twin = rig.Compute(256);
  const int64_t before = AllocationCount();
  rig.index.Publish({.tokens = tokens, .table = table, .salt = kNoSalt, .first_block = 0});
  rig.index.Publish({.tokens = tokens, .table = twin, .salt = kNoSalt, .first_block = 0});
  twin.Clear();
  twin.Adopt(rig.index.Find({.tokens = tokens, .salt = kNoSalt, .max_blocks = kNoLimit}), 256);
  twin.Clear();
  table.Clear();
  rig.index.Evict(3);
  rig.index.Clear();
  EXPECT_EQ(AllocationCount(), before);
}

TEST(PrefixIndex, IntegrityCheckNoticesSpoiledEntries) {
  const auto message_after = [](auto spoil) {
    Rig rig(8);
    BlockTable table = rig.Compute(192);
    rig.Publish(Tokens({1, 2, 3}), table);
    const std::vector<BlockId> blocks(table.blocks().begin(), table.blocks().end());
    table.Clear();
    rig.ExpectIntegrity();
    spoil(rig, blocks);
    const auto result = rig.index.CheckIntegrity();
    // What is spoiled must not be taken down in the ordinary way.
    for (const BlockId block : blocks) PrefixIndexPeer::At(rig.index, block).named = false;
    return result ? std::string("all well") : result.error().message;
  };
  using Blocks = const std::vector<BlockId>&;
  const auto at = [](Rig & rig, BlockId block) -> auto& {
    return PrefixIndexPeer::At(rig.index, block);
  };
  EXPECT_EQ(message_after([](Rig&, Blocks) {}), "all well");
  EXPECT_THAT(message_after([&](Rig& r, Blocks b) { ++at(r, b[0]).num_children; }),
              HasSubstr("counts 2 children and has 1"));
  EXPECT_THAT(message_after([&](Rig& r, Blocks b) { at(r, b[2]).parent = 7; }),
              HasSubstr("parent 7 without a name"));
  EXPECT_THAT(message_after([&](Rig& r, Blocks b) { at(r, b[2]).salt.low = 1; }),
              HasSubstr("another salt"));
  EXPECT_THAT(message_after([&](Rig& r, Blocks b) { ++at(r, b[2]).name.high; }),
              HasSubstr("another name"));
  EXPECT_THAT(
      message_after([&](Rig& r, Blocks b) { ++PrefixIndexPeer::FirstToken(r.index, b[1]); }),
      HasSubstr("another name"));
  EXPECT_THAT(
      message_after([&](Rig& r, Blocks b) { PrefixIndexPeer::BucketOf(r.index, b[1]) = -1; }),
      HasSubstr("the buckets hold"));
  EXPECT_THAT(message_after([&](Rig& r, Blocks b) { at(r, b[1]).next = b[1].index; }),
              HasSubstr("twice"));
  EXPECT_THAT(message_after([&](Rig& r, Blocks b) { r.pool.Share(b[1]); }),
              HasSubstr("is in use and its parent"));
  EXPECT_THAT(message_after([&](Rig& r, Blocks b) {
                r.pool.Share(b[0]);
                r.pool.Share(b[1]);
                r.pool.Release(b[0]);
                r.pool.Release(b[1]);
              }),
              HasSubstr("has not been idle longer than its parent"));
}

TEST(PrefixIndexDeathTest, TokensOfAnotherSequenceAbort) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Rig rig(8);
  BlockTable table = rig.Compute(64);
  rig.Publish(Tokens({1}), table);
  EXPECT_DEATH(rig.Publish(Tokens({2}), table), "CHECK failed");
  EXPECT_DEATH(rig.index.TokensOf({5}), "CHECK failed");
}

}  // namespace
}  // namespace baton
