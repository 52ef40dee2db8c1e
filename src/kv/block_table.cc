#include "kv/block_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/number_text.h"

namespace baton {

BlockTable::BlockTable(BlockPool& pool, int64_t max_tokens)
    : pool_(&pool), max_tokens_(max_tokens) {
  CHECK_GE(max_tokens, 0);
  blocks_.reserve(std::min<int64_t>(NumBlocksFor(max_tokens), pool.num_blocks()));
}

BlockTable::BlockTable(BlockTable&& other) noexcept
    : pool_(other.pool_),
      blocks_(std::exchange(other.blocks_, {})),
      num_tokens_(std::exchange(other.num_tokens_, 0)),
      max_tokens_(std::exchange(other.max_tokens_, 0)),
      writable_end_(std::exchange(other.writable_end_, 0)) {}

BlockTable& BlockTable::operator=(BlockTable&& other) noexcept {
  if (this == &other) return *this;
  Clear();
  pool_ = other.pool_;
  blocks_ = std::exchange(other.blocks_, {});
  num_tokens_ = std::exchange(other.num_tokens_, 0);
  max_tokens_ = std::exchange(other.max_tokens_, 0);
  writable_end_ = std::exchange(other.writable_end_, 0);
  return *this;
}

BlockTable::~BlockTable() {
  Clear();
}

bool BlockTable::CopiesLast() const {
  if (num_tokens_ % kBlockTokens == 0) return false;
  const BlockId last = blocks_[static_cast<size_t>(num_tokens_ / kBlockTokens)];
  return pool_->num_references(last) > 1 || pool_->is_kept(last);
}

int64_t BlockTable::BlocksToReserve(int64_t new_tokens) const {
  if (new_tokens == 0) return 0;
  const int64_t joining = NumBlocksFor(num_tokens_ + new_tokens) - std::ssize(blocks_);
  return std::max<int64_t>(joining, 0) + (CopiesLast() ? 1 : 0);
}

Result<> BlockTable::Reserve(int64_t new_tokens) {
  CHECK_GE(new_tokens, 0);
  if (new_tokens > max_tokens_ - num_tokens_) {
    return Fail(ErrorCode::kExhausted,
                fmt::format("context full: {} and {} more exceed {}", CountOf(num_tokens_, "token"),
                            new_tokens, max_tokens_));
  }
  if (new_tokens == 0) return {};
  const bool copies = CopiesLast();
  const int64_t needed = BlocksToReserve(new_tokens);
  const int64_t joining = needed - (copies ? 1 : 0);
  if (needed > pool_->num_free()) {
    return Fail(
        ErrorCode::kExhausted,
        fmt::format("KV cache full: {} of {} blocks are free, and {} more would take {}; end "
                    "a sequence or start with a larger cache",
                    pool_->num_free(), pool_->num_blocks(), CountOf(new_tokens, "token"),
                    CountOf(needed, "block")));
  }
  // From here on nothing fails: the blocks are there.
  if (copies) {
    const int64_t last = num_tokens_ / kBlockTokens;
    const Result<BlockId> copy = pool_->Allocate();
    CHECK(copy.has_value());
    std::memcpy(pool_->Data(*copy), pool_->Data(blocks_[last]), pool_->layout().block_bytes());
    pool_->Release(blocks_[last]);
    blocks_[last] = *copy;
  }
  for (int64_t i = 0; i < joining; ++i) {
    const Result<BlockId> block = pool_->Allocate();
    CHECK(block.has_value());
    blocks_.push_back(*block);
  }
  writable_end_ = std::min(std::ssize(blocks_) * kBlockTokens, max_tokens_);
  return {};
}

void BlockTable::Append(int64_t new_tokens) {
  CHECK_GE(new_tokens, 0);
  CHECK_LE(new_tokens, writable_end_ - num_tokens_);
  num_tokens_ += new_tokens;
}

void BlockTable::Truncate(int64_t num_tokens) {
  CHECK_GE(num_tokens, 0);
  CHECK_LE(num_tokens, num_tokens_);
  const int64_t kept = NumBlocksFor(num_tokens);
  while (std::ssize(blocks_) > kept) {
    pool_->Release(blocks_.back());
    blocks_.pop_back();
  }
  num_tokens_ = num_tokens;
  writable_end_ = num_tokens;
}

void BlockTable::Adopt(std::span<const BlockId> blocks, int64_t num_tokens) {
  CHECK(blocks_.empty());
  CHECK_GE(num_tokens, 0);
  CHECK_LE(num_tokens, max_tokens_);
  CHECK_EQ(NumBlocksFor(num_tokens), std::ssize(blocks));
  for (const BlockId block : blocks) {
    pool_->Share(block);
    blocks_.push_back(block);
  }
  num_tokens_ = num_tokens;
  writable_end_ = num_tokens;
}

void BlockTable::Replace(int64_t i, BlockId block) {
  CHECK(i >= 0 && i < std::ssize(blocks_));
  pool_->Share(block);
  pool_->Release(std::exchange(blocks_[i], block));
}

BlockTable BlockTable::Fork() {
  BlockTable fork(*pool_, max_tokens_);
  const int64_t shared = NumBlocksFor(num_tokens_);
  for (int64_t i = 0; i < shared; ++i) {
    pool_->Share(blocks_[i]);
    fork.blocks_.push_back(blocks_[i]);
  }
  fork.num_tokens_ = num_tokens_;
  fork.writable_end_ = num_tokens_;
  writable_end_ = num_tokens_;
  return fork;
}

Result<> CheckReferences(const BlockPool& pool, std::span<const BlockTable* const> tables) {
  std::vector<int64_t> references(pool.num_blocks(), 0);
  for (const BlockTable* table : tables) {
    for (const BlockId block : table->blocks()) ++references[block.index];
  }
  for (int32_t index = 0; index < pool.num_blocks(); ++index) {
    const int32_t counted = pool.num_references({index});
    if (counted == references[index]) continue;
    return Fail(ErrorCode::kInternal,
                fmt::format("KV cache: block {} counts {} references, the tables hold {}", index,
                            counted, references[index]));
  }
  return {};
}

}  // namespace baton
