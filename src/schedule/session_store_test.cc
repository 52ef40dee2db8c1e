#include "schedule/session_store.h"

#include <gtest/gtest.h>

#include <utility>

#include "schedule/test_executor.h"

namespace baton {
namespace {

class SessionStoreTest : public testing::Test {
 protected:
  KeptSequence Kept(int64_t num_tokens) {
    KeptSequence kept{.ledger = {.known = std::vector<TokenId>(static_cast<size_t>(num_tokens), 7),
                                 .num_prompt = num_tokens,
                                 .computed = num_tokens},
                      .table = BlockTable(pool_, 1000)};
    EXPECT_TRUE(kept.table.Reserve(num_tokens).has_value());
    kept.table.Append(num_tokens);
    return kept;
  }

  BlockPool pool_ = TestExecutor::MakePool(16);
  SessionStore store_;
};

TEST_F(SessionStoreTest, GivesOutOnceWhatIsKept) {
  EXPECT_EQ(store_.Find(1), nullptr);
  EXPECT_FALSE(store_.Take(1).has_value());
  store_.Put(1, Kept(130));
  ASSERT_NE(std::as_const(store_).Find(1), nullptr);
  EXPECT_EQ(store_.Find(1)->ledger.computed, 130);
  EXPECT_EQ(pool_.num_owned(), 3);
  const std::optional<KeptSequence> taken = store_.Take(1);
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(taken->table.num_tokens(), 130);
  EXPECT_EQ(store_.size(), 0u);
  EXPECT_FALSE(store_.Take(1).has_value());
}

TEST_F(SessionStoreTest, ASessionIsKeptOnce) {
  store_.Put(1, Kept(130));
  store_.Put(2, Kept(64));
  store_.Put(1, Kept(10));
  EXPECT_EQ(store_.size(), 2u);
  EXPECT_EQ(store_.Find(1)->ledger.computed, 10);
  EXPECT_EQ(pool_.num_owned(), 2);
}

TEST_F(SessionStoreTest, LetsGoOfTheOldestButOfTheOneNamed) {
  store_.Put(1, Kept(64));
  store_.Put(2, Kept(64));
  store_.Put(3, Kept(64));
  store_.Put(1, Kept(64));  // is the youngest now
  EXPECT_TRUE(store_.DropOldestBut(2));
  EXPECT_EQ(store_.Find(3), nullptr);
  EXPECT_TRUE(store_.DropOldestBut(0));
  EXPECT_EQ(store_.Find(2), nullptr);
  EXPECT_FALSE(store_.DropOldestBut(1));
  EXPECT_NE(store_.Find(1), nullptr);
  EXPECT_TRUE(store_.DropOldestBut(0));
  EXPECT_FALSE(store_.DropOldestBut(0));
}

TEST_F(SessionStoreTest, M3AllBlocksComeBack) {
  {
    SessionStore store;
    for (uint64_t session = 1; session <= 4; ++session) store.Put(session, Kept(200));
    EXPECT_EQ(pool_.num_free(), 0);
    int tables = 0;
    store.ForEachTable([&](const BlockTable& table) { tables += table.num_tokens() == 200; });
    EXPECT_EQ(tables, 4);
  }
  EXPECT_EQ(pool_.num_free(), 16);
  EXPECT_TRUE(pool_.CheckIntegrity().has_value());
}

}  // namespace
}  // namespace baton
