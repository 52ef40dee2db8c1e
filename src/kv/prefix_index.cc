#include "kv/prefix_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>

#include "base/check.h"

namespace baton {
namespace {

tl::unexpected<Error> Broken(int32_t block, const std::string& what) {
  return Fail(ErrorCode::kInternal,
              fmt::format("prefix index: the entry of block {} {}", block, what));
}

BlockTokens TokensOfBlock(std::span<const TokenId> tokens, int64_t block) {
  return tokens.subspan(static_cast<size_t>(block * kBlockTokens)).first<kBlockTokens>();
}

}  // namespace

// The token memory is not cleared, so it is the system's until a block is first named.
PrefixIndex::PrefixIndex(BlockPool& pool, const PrefixIndexConfig& config)
    : pool_(pool),
      config_(config),
      entries_(static_cast<size_t>(pool.num_blocks())),
      tokens_(std::make_unique_for_overwrite<TokenId[]>(entries_.size() * kBlockTokens)),
      buckets_(std::bit_ceil(entries_.size()), kNone) {
  found_.reserve(entries_.size());
}

std::span<const BlockId> PrefixIndex::Find(const FindArgs& args) {
  found_.clear();
  const int64_t limit = std::min(std::ssize(args.tokens) / kBlockTokens, args.max_blocks);
  Place place = RootPlace(args.salt);
  for (int64_t i = 0; i < limit; ++i) {
    const BlockTokens tokens = TokensOfBlock(args.tokens, i);
    const int32_t block = Lookup(place, config_.chain_hash(place.name, tokens), tokens);
    if (block == kNone) break;
    found_.push_back({block});
    place = PlaceAfter(block);
  }
  ++counters_.queries;
  counters_.queried_tokens += std::ssize(args.tokens);
  counters_.hit_tokens += std::ssize(found_) * kBlockTokens;
  return found_;
}

int64_t PrefixIndex::Publish(const PublishArgs& args) {
  const std::span<const BlockId> blocks = args.table.blocks();
  const int64_t complete =
      std::min(std::ssize(args.tokens), args.table.num_tokens()) / kBlockTokens;
  int64_t first = std::clamp<int64_t>(args.first_block, 0, complete);
  // Names may be gone since: the table was cut and filled anew, or the index cleared.
  while (first > 0 && !entries_[blocks[first - 1].index].named) --first;
  if (first == complete) return complete;
  Place place = first == 0 ? RootPlace(args.salt) : PlaceAfter(blocks[first - 1].index);
  CHECK(place.salt == args.salt);
  for (int64_t i = first; i < complete; ++i) {
    const BlockTokens tokens = TokensOfBlock(args.tokens, i);
    const BlockId own = blocks[i];
    const Hash128 name = config_.chain_hash(place.name, tokens);
    const int32_t known = Lookup(place, name, tokens);
    if (known == kNone) {
      CHECK(!entries_[own.index].named);
      if (pool_.num_references(own) > 1) return i;
      Insert(place, name, tokens, own);
      place = PlaceAfter(own.index);
      continue;
    }
    if (known != own.index) {
      CHECK(!entries_[own.index].named);
      if (pool_.num_references(own) == 1 && pool_.num_io_in_flight(own) > 0) return i;
      args.table.Replace(i, {known});
      ++counters_.merged_blocks;
    }
    place = PlaceAfter(known);
  }
  return complete;
}

int64_t PrefixIndex::Evict(int64_t num_blocks) {
  int64_t evicted = 0;
  while (evicted < num_blocks) {
    std::optional<BlockId> block = pool_.OldestCached();
    // Only the ancestors of a block with I/O in flight are passed over.
    while (block && !MayDrop(block->index)) block = pool_.NextCached(*block);
    if (!block) break;
    Remove(block->index);
    ++evicted;
  }
  counters_.evicted_blocks += evicted;
  return evicted;
}

void PrefixIndex::Clear() {
  for (int32_t start = 0; start < pool_.num_blocks(); ++start) {
    // From a leaf to the first ancestor that has another child, which comes by there in its turn.
    int32_t block = start;
    while (block != kNone && entries_[block].named && MayDrop(block)) {
      const int32_t parent = entries_[block].parent;
      Remove(block);
      block = parent;
    }
  }
}

std::optional<Hash128> PrefixIndex::NameOf(BlockId block) const {
  CHECK(block.index >= 0 && block.index < pool_.num_blocks());
  const Entry& entry = entries_[block.index];
  return entry.named ? std::optional(entry.name) : std::nullopt;
}

std::optional<BlockId> PrefixIndex::ParentOf(BlockId block) const {
  CHECK(NameOf(block).has_value());
  const int32_t parent = entries_[block.index].parent;
  return parent == kNone ? std::nullopt : std::optional(BlockId{parent});
}

BlockTokens PrefixIndex::TokensOf(BlockId block) const {
  CHECK(NameOf(block).has_value());
  return TokensAt(block.index);
}

BlockTokens PrefixIndex::TokensAt(int32_t block) const {
  return BlockTokens(tokens_.get() + static_cast<size_t>(block) * kBlockTokens, kBlockTokens);
}

PrefixIndex::Place PrefixIndex::RootPlace(const Hash128& salt) const {
  return {.name = PrefixRoot(config_.key, salt), .salt = salt, .parent = kNone};
}

PrefixIndex::Place PrefixIndex::PlaceAfter(int32_t block) const {
  const Entry& entry = entries_[block];
  return {.name = entry.name, .salt = entry.salt, .parent = block};
}

// The block of this content in this place, or kNone. Parent and tokens, not the hash, decide: the
// parent was confirmed in the same way, and a first block by its salt.
int32_t PrefixIndex::Lookup(const Place& place, const Hash128& name, BlockTokens tokens) const {
  for (int32_t block = buckets_[BucketOf(name)]; block != kNone; block = entries_[block].next) {
    const Entry& entry = entries_[block];
    if (entry.name == name && entry.parent == place.parent && entry.salt == place.salt &&
        std::ranges::equal(TokensAt(block), tokens)) {
      return block;
    }
  }
  return kNone;
}

void PrefixIndex::Insert(const Place& place, const Hash128& name, BlockTokens tokens,
                         BlockId block) {
  pool_.Keep(block);
  std::ranges::copy(tokens, tokens_.get() + static_cast<size_t>(block.index) * kBlockTokens);
  int32_t& bucket = buckets_[BucketOf(name)];
  entries_[block.index] = {.name = name,
                           .salt = place.salt,
                           .parent = place.parent,
                           .next = bucket,
                           .num_children = 0,
                           .named = true};
  bucket = block.index;
  if (place.parent != kNone) ++entries_[place.parent].num_children;
  ++num_entries_;
  ++counters_.named_blocks;
}

void PrefixIndex::Remove(int32_t block) {
  Entry& entry = entries_[block];
  CHECK_EQ(entry.num_children, 0);
  int32_t* link = &buckets_[BucketOf(entry.name)];
  while (*link != block) {
    CHECK_NE(*link, kNone);
    link = &entries_[*link].next;
  }
  *link = entry.next;
  if (entry.parent != kNone) --entries_[entry.parent].num_children;
  entry = {};
  --num_entries_;
  pool_.Drop({block});
}

// Whether a named block is a leaf whose end of name leaves nothing in limbo.
bool PrefixIndex::MayDrop(int32_t block) const {
  if (entries_[block].num_children > 0) return false;
  return !pool_.is_cached({block}) || pool_.num_io_in_flight({block}) == 0;
}

Result<> PrefixIndex::CheckIntegrity() const {
  if (Result<> good = CheckBuckets(); !good) return good;
  std::vector<int32_t> num_children(entries_.size(), 0);
  int64_t num_named = 0;
  for (int32_t block = 0; block < pool_.num_blocks(); ++block) {
    const Entry& entry = entries_[block];
    if (entry.named != pool_.is_kept({block})) {
      return Broken(block,
                    entry.named ? "names a block that is not kept" : "is gone, not its mark");
    }
    if (!entry.named) continue;
    ++num_named;
    if (Result<> good = CheckEntry(block); !good) return good;
    if (entry.parent != kNone) ++num_children[entry.parent];
  }
  for (int32_t block = 0; block < pool_.num_blocks(); ++block) {
    if (entries_[block].num_children == num_children[block]) continue;
    return Broken(block, fmt::format("counts {} children and has {}", entries_[block].num_children,
                                     num_children[block]));
  }
  if (num_named != num_entries_) {
    return Broken(kNone, fmt::format("counts {} and finds {}", num_entries_, num_named));
  }
  return {};
}

// What one entry says against its parent, its tokens and the pool.
Result<> PrefixIndex::CheckEntry(int32_t block) const {
  const Entry& entry = entries_[block];
  const bool has_parent = entry.parent != kNone;
  if (has_parent &&
      (entry.parent < 0 || entry.parent >= pool_.num_blocks() || !entries_[entry.parent].named)) {
    return Broken(block, fmt::format("has a parent {} without a name", entry.parent));
  }
  const Place place = has_parent ? PlaceAfter(entry.parent) : RootPlace(entry.salt);
  if (place.salt != entry.salt) return Broken(block, "has another salt than its parent");
  if (config_.chain_hash(place.name, TokensAt(block)) != entry.name) {
    return Broken(block, "has another name than its parent and tokens give");
  }
  if (Lookup(place, entry.name, TokensAt(block)) != block) {
    return Broken(block, "is not found by its tokens");
  }
  if (!has_parent || !pool_.is_cached({entry.parent})) return {};
  if (!pool_.is_cached({block})) {
    return Broken(block, fmt::format("is in use and its parent {} is not", entry.parent));
  }
  if (pool_.IdleSince({block}) < pool_.IdleSince({entry.parent})) return {};
  return Broken(block, fmt::format("has not been idle longer than its parent {}", entry.parent));
}

// That every bucket has the named blocks that belong there, each once.
Result<> PrefixIndex::CheckBuckets() const {
  int64_t num_listed = 0;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    for (int32_t block = buckets_[bucket]; block != kNone; block = entries_[block].next) {
      if (block < 0 || block >= pool_.num_blocks() || !entries_[block].named ||
          BucketOf(entries_[block].name) != bucket) {
        return Broken(block, fmt::format("does not belong into bucket {}", bucket));
      }
      if (++num_listed > num_entries_) return Broken(block, "is in a bucket twice");
    }
  }
  if (num_listed == num_entries_) return {};
  return Broken(kNone, fmt::format("counts {} and the buckets hold {}", num_entries_, num_listed));
}

}  // namespace baton
