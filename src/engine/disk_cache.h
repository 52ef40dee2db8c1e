// The disk tier behind the engine (kv/disk_tier.h): a thread of its own that stores blocks and
// reads them back, so that no step waits for a disk.
//
// The engine hands over copies of blocks as they become complete, and asks for the blocks of a
// prompt before the request goes to the scheduler. What comes back is whole and confirmed by its
// tokens, or does not come.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "base/ids.h"
#include "base/result.h"
#include "kv/disk_tier.h"

namespace baton {

struct DiskCacheCounters {
  DiskTierCounters tier;
  int64_t skipped = 0;  // blocks that were not stored since too many waited
  int64_t failed = 0;   // or since the disk refused
};

// Threads: the engine's; the thread inside is its own.
class DiskCache {
 public:
  // Blocks that wait to be stored, or to be taken after they were read.
  static constexpr size_t kMaxWaiting = 32;
  // Blocks of one answer to Load.
  static constexpr size_t kSlice = 8;

  // `wake` is called, on the thread inside, whenever there is something to take.
  // Errors: as DiskTier::Open.
  static Result<std::unique_ptr<DiskCache>> Make(const DiskTierConfig& config,
                                                 std::function<void()> wake);
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;
  // Stores what waits, forgets what was asked for.
  ~DiskCache();

  // Has a copy of a block stored, if not too many wait. Tokens: of the sequence up to its end.
  void Store(const Hash128& name, std::span<const TokenId> tokens,
             std::span<const std::byte> bytes);

  // Asks for a chain of blocks behind those that are in memory.
  struct Wanted {
    uint64_t ticket = 0;
    std::vector<TokenId> tokens;  // of the whole prompt
    std::vector<Hash128> names;   // of its complete blocks, in order
    size_t first_block = 0;
  };
  void Load(Wanted wanted);

  // The next blocks of a chain. The last answer to a ticket has is_last; it may be without blocks.
  struct Loaded {
    uint64_t ticket = 0;
    size_t first_block = 0;
    std::vector<std::vector<std::byte>> blocks;
    bool is_last = false;
  };
  // Everything that was read since the last call.
  void Take(std::vector<Loaded>& loaded);

  DiskCacheCounters counters() const;

  // Called, on the thread inside, when a block could not be stored and the one before it could.
  void OnProblem(std::function<void(const std::string& message)> listener);

 private:
  struct Stored {
    Hash128 name;
    std::vector<TokenId> tokens;
    std::vector<std::byte> bytes;
  };

  DiskCache(DiskTier tier, size_t block_bytes, std::function<void()> wake);
  void Work();
  void StoreOne(std::unique_lock<std::mutex>& lock);
  void LoadSlice(std::unique_lock<std::mutex>& lock);
  bool MayLoad() const { return !wanted_.empty() && num_loaded_ < kMaxWaiting; }

  DiskTier tier_;  // of the thread inside
  const size_t block_bytes_;
  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Stored> stored_;
  std::deque<Wanted> wanted_;
  std::vector<Loaded> loaded_;
  size_t num_loaded_ = 0;  // blocks in loaded_
  bool stopping_ = false;
  DiskCacheCounters counters_;
  bool stores_ = true;  // the last block was stored, or was there
  std::function<void(const std::string& message)> on_problem_;
  std::thread thread_;
};

}  // namespace baton
