// Random use of pool, tables and index together, against plain maps of what should be found, what
// should be evicted next, and what every slot should hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "kv/prefix_index.h"

namespace baton {
namespace {

constexpr int kHeadDim = 16;

Hash128 SameForAll(const Hash128&, BlockTokens) {
  return {.low = 7, .high = 7};
}
// Collides often, and still spreads over buckets.
Hash128 TwoBits(const Hash128& before, BlockTokens tokens) {
  return {.low = ChainHash(before, tokens).low & 3, .high = 0};
}

BlockPool MakePool(int32_t num_blocks) {
  const auto layout =
      BlockLayout::Make({.num_layers = 1, .num_kv_heads = 1, .head_dim = kHeadDim}).value();
  return BlockPool::Make(layout, num_blocks).value();
}

// A prefix of whole blocks under a salt.
using Prefix = std::pair<uint64_t, std::vector<TokenId>>;

struct Sequence {
  std::unique_ptr<BlockTable> table;
  std::vector<TokenId> tokens;
  uint64_t salt = 0;
  int64_t published = 0;

  Prefix PrefixOf(int64_t num_blocks) const {
    return {salt, {tokens.begin(), tokens.begin() + num_blocks * kBlockTokens}};
  }
};

struct Named {
  BlockId block;
  int64_t idle_since = -1;  // operation after which no table held it, or -1
  int io = 0;
};

struct Settings {
  uint64_t seed = 0;
  int32_t num_blocks = 0;
  Hash128 (*chain_hash)(const Hash128&, BlockTokens) = ChainHash;
};

class RandomUse {
 public:
  explicit RandomUse(const Settings& settings)
      : random_({.seed = settings.seed, .stream = 0}),
        pool_(MakePool(settings.num_blocks)),
        index_(pool_, {.key = {}, .chain_hash = settings.chain_hash}) {}

  void Step() {
    ++now_;
    const uint64_t action = random_.NextBelow(40);
    if (sequences_.empty() || action < 5) return Begin();
    Sequence& chosen = sequences_[random_.NextBelow(sequences_.size())];
    if (action < 15) return Extend(chosen);
    if (action < 24) return Publish(chosen);
    if (action < 26) return Fork(chosen);
    if (action < 28) return Cut(chosen);
    if (action < 32) return End(&chosen - sequences_.data());
    if (action < 34) return Evict(static_cast<int64_t>(random_.NextBelow(4)));
    if (action < 39) return BeginOrEndIo();
    if (random_.NextBelow(10) == 0) Clear();
  }

  void Check() {
    NoteIdleness();
    const auto books = pool_.CheckIntegrity();
    ASSERT_TRUE(books.has_value()) << books.error().message;
    const auto entries = index_.CheckIntegrity();
    ASSERT_TRUE(entries.has_value()) << entries.error().message;
    std::vector<const BlockTable*> tables;
    for (const Sequence& sequence : sequences_) tables.push_back(sequence.table.get());
    const auto references = CheckReferences(pool_, tables);
    ASSERT_TRUE(references.has_value()) << references.error().message;
    ASSERT_EQ(index_.num_entries(), std::ssize(named_));
    int32_t idle = 0;
    for (const auto& [prefix, named] : named_) idle += named.idle_since >= 0 ? 1 : 0;
    ASSERT_EQ(pool_.num_cached(), idle);
    for (const Sequence& sequence : sequences_) {
      ASSERT_NO_FATAL_FAILURE(CheckContent(*sequence.table, sequence.tokens, sequence.salt));
    }
  }

  void Finish() {
    for (auto& [prefix, named] : named_) {
      for (; named.io > 0; --named.io) pool_.EndIo(named.block);
    }
    while (!sequences_.empty()) {
      ++now_;
      End(0);
      NoteIdleness();
    }
    ASSERT_EQ(pool_.num_free() + pool_.num_cached(), pool_.num_blocks()) << "idle";
    ASSERT_NO_FATAL_FAILURE(Check());
    while (!named_.empty()) ASSERT_NO_FATAL_FAILURE(Evict(2));
    ASSERT_EQ(index_.Evict(1), 0);
    ASSERT_EQ(pool_.num_free(), pool_.num_blocks());
    ASSERT_NO_FATAL_FAILURE(Check());
  }

  int64_t num_hits() const { return index_.counters().hit_tokens / kBlockTokens; }
  int64_t num_evictions() const { return index_.counters().evicted_blocks; }
  int64_t num_merged() const { return index_.counters().merged_blocks; }

 private:
  static constexpr size_t kMaxSequences = 5;
  static constexpr int64_t kMaxTokens = 400;

  // What token i's slot should hold: a function of the salt and all tokens up to it.
  static std::vector<uint16_t> MarksOf(const std::vector<TokenId>& tokens, uint64_t salt) {
    std::vector<uint16_t> marks;
    uint64_t state = salt + 1;
    for (const TokenId token : tokens) {
      state = (state + static_cast<uint64_t>(token) + 1) * 0x9e3779b97f4a7c15u;
      state ^= state >> 29;
      marks.push_back(static_cast<uint16_t>(state >> 16));
    }
    return marks;
  }
  uint16_t& Slot(const BlockTable& table, int64_t position) {
    const BlockId block = table.blocks()[position / kBlockTokens];
    auto* record = reinterpret_cast<uint16_t*>(pool_.Data(block));
    const KvRecord layout = pool_.layout().record();
    return record[layout.KeyIndex(3, static_cast<int>(position % kBlockTokens))];
  }
  void CheckContent(const BlockTable& table, const std::vector<TokenId>& tokens, uint64_t salt) {
    ASSERT_EQ(table.num_tokens(), std::ssize(tokens));
    const std::vector<uint16_t> marks = MarksOf(tokens, salt);
    for (int64_t i = 0; i < std::ssize(tokens); ++i) {
      ASSERT_EQ(Slot(table, i), marks[i]) << "token " << i;
    }
  }

  // Few different blocks, so that prefixes meet often.
  std::vector<TokenId> RandomTokens(int64_t max_blocks) {
    std::vector<TokenId> tokens;
    for (uint64_t i = random_.NextBelow(max_blocks + 1); i > 0; --i) {
      tokens.insert(tokens.end(), kBlockTokens, static_cast<TokenId>(random_.NextBelow(2)));
    }
    return tokens;
  }

  // The blocks that a search should find.
  std::vector<BlockId> Expected(const Sequence& wanted, int64_t max_blocks) const {
    std::vector<BlockId> blocks;
    for (int64_t i = 1; i <= std::min(std::ssize(wanted.tokens) / kBlockTokens, max_blocks); ++i) {
      const auto it = named_.find(wanted.PrefixOf(i));
      if (it == named_.end()) break;
      blocks.push_back(it->second.block);
    }
    return blocks;
  }

  void Begin() {
    Sequence begun;
    begun.table = std::make_unique<BlockTable>(pool_, kMaxTokens);
    begun.salt = random_.NextBelow(2);
    begun.tokens = RandomTokens(6);
    const auto max_blocks = static_cast<int64_t>(random_.NextBelow(7));
    const auto found = index_.Find(
        {.tokens = begun.tokens, .salt = {.low = begun.salt}, .max_blocks = max_blocks});
    ASSERT_EQ(std::vector(found.begin(), found.end()), Expected(begun, max_blocks));
    if (sequences_.size() == kMaxSequences) return;
    int64_t hit = std::ssize(found) * kBlockTokens;
    if (hit > 0 && random_.NextBelow(3) == 0) hit -= 1;  // the last token is computed again
    begun.tokens.resize(hit);
    begun.table->Adopt(found, hit);
    begun.published = hit / kBlockTokens;
    sequences_.push_back(std::move(begun));
  }

  void Extend(Sequence& sequence) {
    const auto wanted = static_cast<int64_t>(random_.NextBelow(100));
    while (!sequence.table->Reserve(wanted)) {
      const int64_t before = std::ssize(named_);
      ASSERT_NO_FATAL_FAILURE(Evict(1));
      if (std::ssize(named_) == before) return;
    }
    for (int64_t i = 0; i < wanted; ++i) {
      const bool begins = sequence.tokens.size() % kBlockTokens == 0;
      const auto symbol = static_cast<TokenId>(random_.NextBelow(2));
      sequence.tokens.push_back(begins ? symbol : sequence.tokens.back());
    }
    const std::vector<uint16_t> marks = MarksOf(sequence.tokens, sequence.salt);
    for (int64_t i = sequence.table->num_tokens(); i < std::ssize(marks); ++i) {
      Slot(*sequence.table, i) = marks[i];
    }
    sequence.table->Append(wanted);
  }

  void Publish(Sequence& sequence) {
    BlockTable& table = *sequence.table;
    const int64_t complete = std::ssize(sequence.tokens) / kBlockTokens;
    int64_t expected = 0;
    std::vector<BlockId> blocks(table.blocks().begin(), table.blocks().end());
    for (; expected < complete; ++expected) {
      const auto it = named_.find(sequence.PrefixOf(expected + 1));
      if (it != named_.end()) {
        blocks[expected] = it->second.block;
      } else if (pool_.num_references(blocks[expected]) > 1) {
        break;  // shared with a fork that may not hold the same parent
      } else {
        named_[sequence.PrefixOf(expected + 1)] = {.block = blocks[expected]};
      }
    }
    // Sometimes what was noted is old: blocks were cut off since.
    sequence.published = index_.Publish({.tokens = sequence.tokens,
                                         .table = table,
                                         .salt = {.low = sequence.salt},
                                         .first_block = sequence.published});
    ASSERT_EQ(sequence.published, expected);
    ASSERT_EQ(std::vector(table.blocks().begin(), table.blocks().end()), blocks);
  }

  void Fork(Sequence& sequence) {
    if (sequences_.size() == kMaxSequences) return;
    Sequence fork;
    fork.table = std::make_unique<BlockTable>(sequence.table->Fork());
    fork.tokens = sequence.tokens;
    fork.salt = sequence.salt;
    fork.published = sequence.published;
    sequences_.push_back(std::move(fork));
  }

  void Cut(Sequence& sequence) {
    const uint64_t kept = random_.NextBelow(sequence.tokens.size() + 1);
    sequence.table->Truncate(static_cast<int64_t>(kept));
    sequence.tokens.resize(kept);
  }

  void End(std::ptrdiff_t place) { sequences_.erase(sequences_.begin() + place); }

  bool HasChild(const Prefix& prefix) const {
    return std::ranges::any_of(named_, [&](const auto& entry) {
      const auto& [salt, tokens] = entry.first;
      return salt == prefix.first && tokens.size() == prefix.second.size() + kBlockTokens &&
             std::equal(prefix.second.begin(), prefix.second.end(), tokens.begin());
    });
  }

  // Longest idle first; what became idle at once, with the later tokens first.
  void Evict(int64_t num_blocks) {
    NoteIdleness();
    int64_t expected = 0;
    for (; expected < num_blocks; ++expected) {
      auto best = named_.end();
      for (auto it = named_.begin(); it != named_.end(); ++it) {
        const Named& named = it->second;
        if (named.idle_since < 0 || named.io > 0 || HasChild(it->first)) continue;
        if (best == named_.end() || named.idle_since < best->second.idle_since) best = it;
      }
      if (best == named_.end()) break;
      gone_.push_back(best->second.block);
      named_.erase(best);
    }
    ASSERT_EQ(index_.Evict(num_blocks), expected);
    for (const BlockId block : gone_) ASSERT_FALSE(index_.NameOf(block).has_value());
    gone_.clear();
  }

  void BeginOrEndIo() {
    if (named_.empty()) return;
    auto it = named_.begin();
    std::advance(it, random_.NextBelow(named_.size()));
    Named& named = it->second;
    if (named.io > 0) {
      pool_.EndIo(named.block);
      --named.io;
    } else if (random_.NextBelow(3) == 0) {
      pool_.BeginIo(named.block);
      ++named.io;
    }
  }

  void Clear() {
    NoteIdleness();
    // I/O on blocks in use would outlive their names; nobody clears then.
    for (auto& [prefix, named] : named_) {
      if (named.idle_since >= 0) continue;
      for (; named.io > 0; --named.io) pool_.EndIo(named.block);
    }
    for (bool changed = true; changed;) {
      changed = std::erase_if(named_, [&](const auto& entry) {
                  const auto& [prefix, named] = entry;
                  return !(named.idle_since >= 0 && named.io > 0) && !HasChild(prefix);
                }) > 0;
    }
    index_.Clear();
  }

  void NoteIdleness() {
    for (auto& [prefix, named] : named_) {
      if (pool_.num_references(named.block) > 0) {
        named.idle_since = -1;
      } else if (named.idle_since < 0) {
        named.idle_since = now_;
      }
    }
  }

  RandomStream random_;
  BlockPool pool_;
  PrefixIndex index_;
  std::vector<Sequence> sequences_;
  std::map<Prefix, Named> named_;
  std::vector<BlockId> gone_;
  int64_t now_ = 0;
};

void UseAtRandom(Hash128 (*chain_hash)(const Hash128&, BlockTokens)) {
  int64_t hits = 0;
  int64_t evictions = 0;
  int64_t merged = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    RandomUse use({.seed = seed,
                   .num_blocks = static_cast<int32_t>(4 + seed % 13),
                   .chain_hash = chain_hash});
    for (int step = 0; step < 1500; ++step) {
      ASSERT_NO_FATAL_FAILURE(use.Step()) << "seed " << seed << " step " << step;
      ASSERT_NO_FATAL_FAILURE(use.Check()) << "seed " << seed << " step " << step;
    }
    ASSERT_NO_FATAL_FAILURE(use.Finish()) << "seed " << seed;
    hits += use.num_hits();
    evictions += use.num_evictions();
    merged += use.num_merged();
  }
  // The walk came by everything it should.
  EXPECT_GT(hits, 1000);
  EXPECT_GT(evictions, 1000);
  EXPECT_GT(merged, 100);
}

TEST(PrefixIndexModel, RandomUse) {
  UseAtRandom(ChainHash);
}

TEST(PrefixIndexModel, RandomUseWithOneHashForAll) {
  UseAtRandom(SameForAll);
}

TEST(PrefixIndexModel, RandomUseWithFewHashes) {
  UseAtRandom(TwoBits);
}

}  // namespace
}  // namespace baton
