#include "kv/block_pool.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "base/check.h"

namespace baton {

Result<BlockPool> BlockPool::Make(const BlockLayout& layout, int32_t num_blocks) {
  if (num_blocks < 1 || num_blocks > kMaxBlocks) {
    return Fail(ErrorCode::kInvalid, fmt::format("KV cache: the number of blocks must be in 1..{}, "
                                                 "got {}",
                                                 kMaxBlocks, num_blocks));
  }
  // Below 2^24 blocks of at most 2^20 records of 2^18 bytes: no overflow.
  const size_t bytes = layout.block_bytes() * static_cast<size_t>(num_blocks);
  Result<AlignedBytes> arena = AlignedBytes::Allocate(bytes);
  if (!arena) {
    return Fail(arena.error().code,
                fmt::format("KV cache: no memory for {} blocks of {} bytes ({} tokens): {}",
                            num_blocks, layout.block_bytes(), int64_t{num_blocks} * kBlockTokens,
                            arena.error().message));
  }
  return BlockPool(layout, *std::move(arena), num_blocks);
}

BlockPool::BlockPool(const BlockLayout& layout, AlignedBytes arena, int32_t num_blocks)
    : layout_(layout), arena_(std::move(arena)), blocks_(num_blocks) {
  free_.reserve(num_blocks);
  for (int32_t i = num_blocks - 1; i >= 0; --i) free_.push_back(i);
}

const BlockPool::Block& BlockPool::At(BlockId block) const {
  CHECK_GE(block.index, 0);
  CHECK_LT(block.index, num_blocks());
  return blocks_[block.index];
}

Result<BlockId> BlockPool::Allocate() {
  if (free_.empty()) {
    return Fail(ErrorCode::kExhausted,
                fmt::format("KV cache full: all {} blocks of {} tokens are in use; end a sequence "
                            "or start with a larger cache",
                            num_blocks(), kBlockTokens));
  }
  const BlockId id = {free_.back()};
  free_.pop_back();
  Block& block = At(id);
  CHECK_EQ(block.num_references, 0);
  // What the system maps is zero; only a block's later lives have to be cleaned.
  if (block.used_before) std::memset(Address(id), 0, layout_.block_bytes());
  block.num_references = 1;
  block.used_before = true;
  return id;
}

void BlockPool::Share(BlockId id) {
  Block& block = At(id);
  CHECK_GT(block.num_references, 0);
  ++block.num_references;
}

void BlockPool::Release(BlockId id) {
  Block& block = At(id);
  CHECK_GT(block.num_references, 0);
  if (--block.num_references > 0) return;
  ++block.generation;
  free_.push_back(id.index);
}

std::byte* BlockPool::Data(BlockId id) const {
  CHECK_GT(At(id).num_references, 0);
  return Address(id);
}

Result<> BlockPool::CheckIntegrity() const {
  const auto broken = [](const std::string& what) {
    return Fail(ErrorCode::kInternal, "KV cache: the books do not agree: " + what);
  };
  std::vector<bool> listed(blocks_.size(), false);
  for (const int32_t index : free_) {
    if (index < 0 || index >= num_blocks()) {
      return broken(fmt::format("block {} of {} on the free list", index, num_blocks()));
    }
    if (listed[index]) return broken(fmt::format("block {} is twice on the free list", index));
    listed[index] = true;
  }
  for (int32_t index = 0; index < num_blocks(); ++index) {
    const Block& block = blocks_[index];
    if (block.num_references < 0 || (block.num_references == 0) != listed[index]) {
      return broken(fmt::format("block {} has {} references and is {}on the free list", index,
                                block.num_references, listed[index] ? "" : "not "));
    }
    if ((block.num_references > 0 || block.generation > 0) && !block.used_before) {
      return broken(
          fmt::format("block {} of generation {} counts as never used", index, block.generation));
    }
  }
  return {};
}

}  // namespace baton
