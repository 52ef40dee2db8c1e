#include "kv/block_pool.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "base/check.h"

namespace baton {
namespace {

tl::unexpected<Error> Broken(const std::string& what) {
  return Fail(ErrorCode::kInternal, "KV cache: the books do not agree: " + what);
}

}  // namespace

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

void BlockPool::TakeMemory(int32_t block) const {
  constexpr size_t kSmallestPage = 4096;
  if (At({block}).used_before) return;
  std::byte* const bytes = Address({block});
  for (size_t at = 0; at < layout_.block_bytes(); at += kSmallestPage) {
    // Kept from the compiler, which sees that nothing changes: fresh memory is zero.
    *const_cast<volatile std::byte*>(bytes + at) = std::byte{0};
  }
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
  CHECK(!block.cached);
  // What the system maps is zero; only a block's later lives have to be cleaned.
  if (block.used_before) std::memset(Address(id), 0, layout_.block_bytes());
  block.num_references = 1;
  block.used_before = true;
  return id;
}

void BlockPool::Share(BlockId id) {
  Block& block = At(id);
  if (block.cached) {
    RemoveFromCached(id);
  } else {
    CHECK_GT(block.num_references, 0);
  }
  ++block.num_references;
}

void BlockPool::Release(BlockId id) {
  Block& block = At(id);
  CHECK_GT(block.num_references, 0);
  if (--block.num_references > 0) return;
  if (block.kept) {
    AppendToCached(id);
  } else {
    MakeFree(id);
  }
}

void BlockPool::Keep(BlockId id) {
  Block& block = At(id);
  CHECK_GT(block.num_references, 0);
  CHECK(!block.kept);
  block.kept = true;
}

void BlockPool::Drop(BlockId id) {
  Block& block = At(id);
  CHECK(block.kept);
  block.kept = false;
  if (!block.cached) return;
  RemoveFromCached(id);
  MakeFree(id);
}

void BlockPool::MakeFree(BlockId id) {
  Block& block = At(id);
  CHECK_EQ(block.num_io_in_flight, 0);
  ++block.generation;
  free_.push_back(id.index);
}

void BlockPool::AppendToCached(BlockId id) {
  Block& block = At(id);
  block.cached = true;
  block.idle_since = ++num_idled_;
  block.older = youngest_;
  block.younger = kNone;
  (youngest_ == kNone ? oldest_ : blocks_[youngest_].younger) = id.index;
  youngest_ = id.index;
  ++num_cached_;
}

void BlockPool::RemoveFromCached(BlockId id) {
  Block& block = At(id);
  (block.older == kNone ? oldest_ : blocks_[block.older].younger) = block.younger;
  (block.younger == kNone ? youngest_ : blocks_[block.younger].older) = block.older;
  block.older = kNone;
  block.younger = kNone;
  block.cached = false;
  --num_cached_;
}

std::optional<BlockId> BlockPool::FirstWithoutIo(int32_t index) const {
  while (index != kNone && blocks_[index].num_io_in_flight > 0) index = blocks_[index].younger;
  if (index == kNone) return std::nullopt;
  return BlockId{index};
}

std::optional<BlockId> BlockPool::NextCached(BlockId id) const {
  CHECK(At(id).cached);
  return FirstWithoutIo(At(id).younger);
}

uint64_t BlockPool::IdleSince(BlockId id) const {
  CHECK(At(id).cached);
  return At(id).idle_since;
}

void BlockPool::BeginIo(BlockId id) {
  Block& block = At(id);
  CHECK(block.num_references > 0 || block.cached);
  ++block.num_io_in_flight;
}

void BlockPool::EndIo(BlockId id) {
  Block& block = At(id);
  CHECK_GT(block.num_io_in_flight, 0);
  --block.num_io_in_flight;
}

std::byte* BlockPool::Data(BlockId id) const {
  const Block& block = At(id);
  CHECK(block.num_references > 0 || block.cached);
  return Address(id);
}

Result<> BlockPool::CheckFreeList(std::vector<bool>& free) const {
  for (const int32_t index : free_) {
    if (index < 0 || index >= num_blocks()) {
      return Broken(fmt::format("block {} of {} on the free list", index, num_blocks()));
    }
    if (free[index]) return Broken(fmt::format("block {} is twice on the free list", index));
    free[index] = true;
  }
  return {};
}

// That the list holds exactly the blocks marked as cached, linked both ways, oldest first.
Result<> BlockPool::CheckCachedList() const {
  int32_t before = kNone;
  int32_t listed = 0;
  for (int32_t index = oldest_; index != kNone; index = blocks_[index].younger) {
    if (index < 0 || index >= num_blocks()) {
      return Broken(
          fmt::format("block {} of {} on the list of cached blocks", index, num_blocks()));
    }
    const Block& block = blocks_[index];
    if (!block.cached) {
      return Broken(fmt::format("block {} is on the list of cached blocks and not cached", index));
    }
    if (block.older != before) {
      return Broken(fmt::format("cached block {} follows {} and names {} as older", index, before,
                                block.older));
    }
    // Ages that rise along the list also rule out a circle.
    if (block.idle_since > num_idled_ ||
        (before != kNone && block.idle_since <= blocks_[before].idle_since)) {
      return Broken(fmt::format("cached block {} is idle since {} of {} and follows {}", index,
                                block.idle_since, num_idled_, before));
    }
    before = index;
    ++listed;
  }
  if (before != youngest_) {
    return Broken(fmt::format("cached block {} is last, {} is noted", before, youngest_));
  }
  int32_t marked = 0;
  for (const Block& block : blocks_) marked += block.cached ? 1 : 0;
  if (listed == num_cached_ && marked == num_cached_) return {};
  return Broken(fmt::format("{} blocks are listed as cached, {} marked, {} counted", listed, marked,
                            num_cached_));
}

Result<> BlockPool::CheckIntegrity() const {
  std::vector<bool> free(blocks_.size(), false);
  if (Result<> good = CheckFreeList(free); !good) return good;
  if (Result<> good = CheckCachedList(); !good) return good;
  for (int32_t index = 0; index < num_blocks(); ++index) {
    const Block& block = blocks_[index];
    const int states =
        (free[index] ? 1 : 0) + (block.cached ? 1 : 0) + (block.num_references > 0 ? 1 : 0);
    if (block.num_references < 0 || states != 1) {
      return Broken(fmt::format("block {} has {} references, is {}on the free list and {}cached",
                                index, block.num_references, free[index] ? "" : "not ",
                                block.cached ? "" : "not "));
    }
    if (free[index] ? block.kept : block.cached && !block.kept) {
      return Broken(fmt::format("block {} is {} and {}kept", index,
                                block.cached ? "cached" : "free", block.kept ? "" : "not "));
    }
    if (block.num_io_in_flight < 0 || (free[index] && block.num_io_in_flight > 0)) {
      return Broken(fmt::format("{}block {} has {} I/O in flight", free[index] ? "free " : "",
                                index, block.num_io_in_flight));
    }
    if ((!free[index] || block.generation > 0) && !block.used_before) {
      return Broken(
          fmt::format("block {} of generation {} counts as never used", index, block.generation));
    }
  }
  return {};
}

}  // namespace baton
