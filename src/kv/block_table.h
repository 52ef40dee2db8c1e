// The blocks of one sequence, in the order of its tokens.
//
// Life of a table:
//  1. empty.
//  2. Reserve makes room for tokens: whole blocks join at the end; a last block that is partly
//     filled and that others can read, because they share it or find it by its name, is replaced by
//     a copy, for it is about to be written. Or Adopt begins with blocks that are written already.
//  3. the step writes K and V, then Append counts the tokens. Back to 2.
//  4. Truncate forgets tokens from the end; Fork makes a second table that shares the first's
//     blocks. Either way the next Reserve copies what must not be written.
//  5. cleared or destroyed: its references are given back, those of the last blocks first: so what
//     stays cached of it is idle the longer the later its tokens (kv/prefix_index.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kv/block_pool.h"

namespace baton {

// Holds one reference to each of its blocks. Move-only.
// Threads: one at a time with all others that use the pool.
class BlockTable {
 public:
  // An empty table for at most max_tokens tokens. Requires: the pool outlives it and is not moved;
  // max_tokens >= 0.
  BlockTable(BlockPool& pool, int64_t max_tokens);
  BlockTable(BlockTable&& other) noexcept;
  BlockTable& operator=(BlockTable&& other) noexcept;
  ~BlockTable();

  // Block i holds the tokens [64 i, 64 i + 64).
  std::span<const BlockId> blocks() const { return blocks_; }
  int64_t num_tokens() const { return num_tokens_; }
  int64_t max_tokens() const { return max_tokens_; }

  // Makes the slots of the next new_tokens tokens present and writable by this table alone.
  // Requires: new_tokens >= 0.
  // Errors: exhausted (max_tokens, or the pool), with the numbers; the table is as before.
  // Memory: allocates nothing outside the pool.
  Result<> Reserve(int64_t new_tokens);

  // Counts new_tokens tokens as written. Requires: they were reserved.
  void Append(int64_t new_tokens);

  // Forgets the tokens from num_tokens on, and all blocks that hold no others, reserved ones too.
  // Requires: 0 <= num_tokens <= num_tokens().
  void Truncate(int64_t num_tokens);

  // Begins with blocks that are written already, taking a reference to each. They may be cached.
  // Requires: the table is empty; the blocks hold num_tokens tokens, the last one at least one of
  // them; num_tokens <= max_tokens(). Memory: allocates nothing.
  void Adopt(std::span<const BlockId> blocks, int64_t num_tokens);

  // Holds another block of the same bytes in place i. Requires: blocks() has place i; the other
  // block is owned or cached.
  void Replace(int64_t i, BlockId block);

  // Gives all blocks back.
  void Clear() { Truncate(0); }

  // A table with the same tokens, sharing all blocks that hold any. Both tables have to Reserve
  // before they append.
  BlockTable Fork();

 private:
  BlockPool* pool_;
  std::vector<BlockId> blocks_;
  int64_t num_tokens_ = 0;
  int64_t max_tokens_ = 0;
  int64_t writable_end_ = 0;  // tokens up to here may be appended without another Reserve
};

// Compares the pool's references with the tables that hold them. Requires: `tables` are all tables
// of the pool, each once.
// Errors: internal, naming the block and both counts.
Result<> CheckReferences(const BlockPool& pool, std::span<const BlockTable* const> tables);

}  // namespace baton
