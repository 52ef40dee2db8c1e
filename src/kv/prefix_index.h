// Finds blocks by the tokens they were computed from, so that a prefix is computed once: a system
// prompt, a document asked twice, the next turn of a chat, a request that was preempted.
//
// Life of an entry:
//  1. named: Publish gives a complete block of accepted tokens its name. The block is kept by the
//     pool: cached when no table holds it.
//  2. found: Find walks from the first block along the chain; every link is confirmed by its tokens
//     and its parent, so a collision of hashes costs a comparison and nothing else.
//  3. gone: Evict drops it, the longest idle first, never one that is in use, has I/O in flight, or
//     has a child: a block without its parent could never be found again.
//
// Who holds a named block holds its parent too: Publish names a block only if its table is the sole
// holder and holds the named parent, Find returns whole chains, and tables share and give back
// their blocks as prefixes. And tables give back their last blocks first. So a cached block has
// been idle longer than its parent, and the longest idle block is a leaf. CheckIntegrity shows
// both.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/hash.h"
#include "base/ids.h"
#include "base/result.h"
#include "kv/block_pool.h"
#include "kv/block_table.h"
#include "kv/prefix_hash.h"

namespace baton {

// Since the index was made. Units: tokens or blocks, as named.
struct PrefixCounters {
  int64_t queries = 0;
  int64_t queried_tokens = 0;
  int64_t hit_tokens = 0;
  int64_t named_blocks = 0;
  int64_t merged_blocks = 0;  // a table's own block gave way to one of the same content
  int64_t evicted_blocks = 0;
};

struct PrefixIndexConfig {
  Hash128 key;                                                     // of model, policy and versions
  Hash128 (*chain_hash)(const Hash128&, BlockTokens) = ChainHash;  // another one in tests
};

// The index of one pool; the only one that keeps and drops its blocks.
// Threads: one at a time with all others that use the pool.
class PrefixIndex {
 public:
  // Requires: the pool outlives the index and is not moved. Memory: about 60 bytes per block of
  // the pool now, 256 more when a block is first named; nothing is allocated later.
  PrefixIndex(BlockPool& pool, const PrefixIndexConfig& config);
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;
  ~PrefixIndex() { Clear(); }

  struct FindArgs {
    std::span<const TokenId> tokens;
    Hash128 salt;
    int64_t max_blocks = 0;
  };
  // The longest chain of named blocks at the front of the tokens, at most max_blocks. Takes no
  // references: adopt them before the next call of Evict or Clear. Memory: the result is valid
  // until the next Find.
  std::span<const BlockId> Find(const FindArgs& args);

  struct PublishArgs {
    std::span<const TokenId> tokens;  // of the table's sequence from its start, all accepted
    BlockTable& table;
    Hash128 salt;
    int64_t first_block = 0;  // blocks before it were published already
  };
  // Names the complete blocks of a table. Where a block of the same content has a name already, the
  // table holds that one from now on instead of its own: their bits are equal.
  // Returns how many of the table's blocks are published: the next call's first_block. It stops
  // early before a block that another table holds too (publish before forking), or that would have
  // to be given back while it has I/O in flight.
  // Requires: the tokens are those that the table's blocks were computed from, with this salt.
  int64_t Publish(const PublishArgs& args);

  // Makes up to num_blocks more blocks free by dropping cached ones, the longest idle first.
  // Returns how many; less only if nothing is left that may be dropped.
  int64_t Evict(int64_t num_blocks);

  // Forgets all names, except those of cached blocks with I/O in flight and of their ancestors.
  void Clear();

  // The name of a block: the key of its content on disk and on other machines. Nothing if it has
  // none. Requires: the block exists.
  std::optional<Hash128> NameOf(BlockId block) const;

  // The block before it in its chain; nothing for a first block. Requires: `block` is named.
  std::optional<BlockId> ParentOf(BlockId block) const;

  // The tokens of one named block. Requires: it is named. Memory: valid while it is.
  BlockTokens TokensOf(BlockId block) const;

  int64_t num_entries() const { return num_entries_; }
  const PrefixCounters& counters() const { return counters_; }

  // Compares entries, hash table, pool and the order of idleness with each other.
  // Errors: internal, naming the block: memory was overwritten, or a bug.
  Result<> CheckIntegrity() const;

 private:
  friend class PrefixIndexPeer;  // spoils the entries in a test

  static constexpr int32_t kNone = -1;

  struct Entry {
    Hash128 name;
    Hash128 salt;
    int32_t parent = kNone;  // block
    int32_t next = kNone;    // block in the same bucket
    int32_t num_children = 0;
    bool named = false;
  };

  // Where a chain stands: what decides the name of the next block.
  struct Place {
    Hash128 name;
    Hash128 salt;
    int32_t parent = kNone;
  };

  Place RootPlace(const Hash128& salt) const;
  Place PlaceAfter(int32_t block) const;
  int32_t Lookup(const Place& place, const Hash128& name, BlockTokens tokens) const;
  void Insert(const Place& place, const Hash128& name, BlockTokens tokens, BlockId block);
  void Remove(int32_t block);
  bool MayDrop(int32_t block) const;
  size_t BucketOf(const Hash128& name) const { return name.low & (buckets_.size() - 1); }
  BlockTokens TokensAt(int32_t block) const;
  Result<> CheckEntry(int32_t block) const;
  Result<> CheckBuckets() const;

  BlockPool& pool_;
  PrefixIndexConfig config_;
  std::vector<Entry> entries_;         // by block
  std::unique_ptr<TokenId[]> tokens_;  // [num_blocks][64]
  std::vector<int32_t> buckets_;       // first block of each; a power of two of them
  std::vector<BlockId> found_;
  int64_t num_entries_ = 0;
  PrefixCounters counters_;
};

}  // namespace baton
