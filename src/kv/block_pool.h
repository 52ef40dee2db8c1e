// The memory of the KV cache, given out in blocks.
//
// Life of a block:
//  1. free: on the free list, no references. Its bytes mean nothing.
//  2. owned: one reference for each block table that holds it; zeroed when it became so. A block
//     with more than one reference is only read.
//  3. free again when the last reference goes; its generation grows by one, so that a note of
//     (block, generation) made before can be told from the block's next life.
// To come with the prefix index: *cached* (complete, no references, found by its tokens, reclaimed
// when free blocks run out); with transfers: a count of I/O in flight, without which no block
// becomes free. Then free + cached = total when idle, as free = total now.
#pragma once

#include <cstddef>
#include <cstdint>
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
  int32_t num_owned() const { return num_blocks() - num_free(); }
  size_t owned_bytes() const { return static_cast<size_t>(num_owned()) * layout_.block_bytes(); }

  // Takes a free block, zeroed, with one reference. Which one is a function of the calls before.
  // Errors: exhausted, with the numbers. Memory: allocates nothing.
  Result<BlockId> Allocate();

  // Adds a reference. Requires: the block is owned.
  void Share(BlockId block);

  // Takes a reference away; with the last one the block becomes free. Requires: it is owned.
  void Release(BlockId block);

  // References to a block; 0 if it is free. Requires: the block exists.
  int32_t num_references(BlockId block) const { return At(block).num_references; }

  // How often the block has become free. Requires: the block exists.
  uint64_t generation(BlockId block) const { return At(block).generation; }

  // The layout().block_bytes() bytes of a block, aligned to a cache line. Requires: it is owned.
  std::byte* Data(BlockId block) const;

  // Compares the books with each other: free list, references, counts.
  // Errors: internal, naming the block and both values: memory was overwritten, or a bug.
  Result<> CheckIntegrity() const;

 private:
  friend class BlockPoolPeer;  // spoils the books in a test

  struct Block {
    int32_t num_references = 0;
    bool used_before = false;  // its bytes may differ from zero
    uint64_t generation = 0;
  };

  BlockPool(const BlockLayout& layout, AlignedBytes arena, int32_t num_blocks);
  const Block& At(BlockId block) const;
  Block& At(BlockId block) { return const_cast<Block&>(std::as_const(*this).At(block)); }
  std::byte* Address(BlockId block) const {
    return arena_.data() + static_cast<size_t>(block.index) * layout_.block_bytes();
  }

  BlockLayout layout_;
  AlignedBytes arena_;
  std::vector<Block> blocks_;
  std::vector<int32_t> free_;  // a stack: what was used last is given out first, as it is warm
};

}  // namespace baton
