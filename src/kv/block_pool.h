// The memory of the KV cache, given out in blocks.
//
// Life of a block:
//  1. free: on the free list, no references. Its bytes mean nothing.
//  2. owned: one reference for each block table that holds it; zeroed when it became so. A block
//     with more than one reference, or a kept one, is only read.
//  3. when the last reference goes: cached if it was kept (it has a name in the prefix index), else
//     free. A cached block keeps its bytes and waits, at the young end of a list in the order of
//     becoming idle, until somebody shares it (2) or drops it (1).
// Its generation grows by one each time it becomes free, so that a note of (block, generation) made
// before can be told from the block's next life. A block whose bytes a transport or the disk may
// still touch counts its I/O in flight, and must not become free before that is over.
// When idle, free + cached = total.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kv/block_layout.h"
#include "tensor/aligned_buffer.h"

namespace baton {

// Owns the blocks of one model's cache. Move-only; tables hold its address, so it is moved only
// before the first table is made.
// Threads: one at a time for all but Data(), whose bytes are the business of who owns the block.
class BlockPool {
 public:
  static constexpr int32_t kMaxBlocks = 1 << 24;

  // Reserves address space for num_blocks blocks; memory is taken when a block is first used.
  // Errors: invalid (num_blocks not in 1..kMaxBlocks), exhausted (the system refuses, with bytes).
  static Result<BlockPool> Make(const BlockLayout& layout, int32_t num_blocks);

  BlockPool(BlockPool&&) noexcept = default;
  BlockPool& operator=(BlockPool&&) noexcept = default;

  const BlockLayout& layout() const { return layout_; }
  int32_t num_blocks() const { return static_cast<int32_t>(blocks_.size()); }
  int32_t num_free() const { return static_cast<int32_t>(free_.size()); }
  int32_t num_cached() const { return num_cached_; }
  int32_t num_owned() const { return num_blocks() - num_free() - num_cached(); }
  size_t owned_bytes() const { return static_cast<size_t>(num_owned()) * layout_.block_bytes(); }

  // Takes a free block, zeroed, with one reference. Which one is a function of the calls before.
  // Errors: exhausted, with the numbers. Memory: allocates nothing.
  Result<BlockId> Allocate();

  // Has the system give the memory of a block that was never used, which Allocate leaves to the
  // first write: so whoever writes does not wait for it. Requires: the block exists. Threads: any,
  // for different blocks; nobody else uses the pool meanwhile.
  void TakeMemory(int32_t block) const;

  // Adds a reference. Requires: the block is owned or cached.
  void Share(BlockId block);

  // Takes a reference away; with the last one the block becomes cached or free. Requires: it is
  // owned, and has no I/O in flight if it becomes free.
  void Release(BlockId block);

  // Has the block become cached instead of free when its last reference goes. Requires: it is owned
  // and not kept.
  void Keep(BlockId block);

  // Takes Keep back; a cached block becomes free. Requires: it is kept, and has no I/O in flight if
  // it is cached.
  void Drop(BlockId block);

  // Requires, all three: the block exists.
  bool is_kept(BlockId block) const { return At(block).kept; }
  bool is_cached(BlockId block) const { return At(block).cached; }
  int32_t num_io_in_flight(BlockId block) const { return At(block).num_io_in_flight; }

  // The cached block without I/O in flight that has been idle longest, and the one that became idle
  // next after `block`. Requires: `block` is cached.
  std::optional<BlockId> OldestCached() const { return FirstWithoutIo(oldest_); }
  std::optional<BlockId> NextCached(BlockId block) const;

  // Grows each time a block becomes cached, so of two cached blocks the lower has been idle longer.
  // Requires: `block` is cached.
  uint64_t IdleSince(BlockId block) const;

  // Counts a transfer of the block's bytes, to or from the disk or another machine; it may begin
  // while the block is owned and go on while it is cached. Who begins it on a block that is not
  // kept holds a reference until it ends. Requires: the block is owned or cached; EndIo: as many
  // began.
  void BeginIo(BlockId block);
  void EndIo(BlockId block);

  // References to a block; 0 if it is free or cached. Requires: the block exists.
  int32_t num_references(BlockId block) const { return At(block).num_references; }

  // How often the block has become free. Requires: the block exists.
  uint64_t generation(BlockId block) const { return At(block).generation; }

  // The layout().block_bytes() bytes of a block, aligned to a cache line. Requires: it is
  // owned or cached.
  std::byte* Data(BlockId block) const;

  // Compares the books with each other: free list, list of cached blocks, references, counts.
  // Errors: internal, naming the block and both values: memory was overwritten, or a bug.
  Result<> CheckIntegrity() const;

 private:
  friend class BlockPoolPeer;  // spoils the books in a test

  static constexpr int32_t kNone = -1;
  struct Block {
    int32_t num_references = 0;
    int32_t num_io_in_flight = 0;
    int32_t older = kNone;  // its neighbours in the list of cached blocks
    int32_t younger = kNone;
    bool used_before = false;  // its bytes may differ from zero
    bool kept = false;
    bool cached = false;
    uint64_t generation = 0;
    uint64_t idle_since = 0;  // of a cached block
  };

  BlockPool(const BlockLayout& layout, AlignedBytes arena, int32_t num_blocks);
  const Block& At(BlockId block) const;
  Block& At(BlockId block) { return const_cast<Block&>(std::as_const(*this).At(block)); }
  std::byte* Address(BlockId block) const {
    return arena_.data() + static_cast<size_t>(block.index) * layout_.block_bytes();
  }

  std::optional<BlockId> FirstWithoutIo(int32_t index) const;
  void AppendToCached(BlockId block);
  void RemoveFromCached(BlockId block);
  void MakeFree(BlockId block);
  Result<> CheckFreeList(std::vector<bool>& free) const;
  Result<> CheckCachedList() const;

  BlockLayout layout_;
  AlignedBytes arena_;
  std::vector<Block> blocks_;
  std::vector<int32_t> free_;  // a stack: what was used last is given out first, as it is warm
  int32_t oldest_ = kNone;     // the ends of the list of cached blocks
  int32_t youngest_ = kNone;
  int32_t num_cached_ = 0;
  uint64_t num_idled_ = 0;
};

}  // namespace baton
