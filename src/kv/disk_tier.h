// Blocks of the cache on disk, for prefixes that memory has no room for and for the next run: a
// folder with a file per block, which any number of processes may share.
//
// Life of a file:
//  1. written under a temporary name, which its writer holds a lock on. Its whole size is counted
//     before it is there.
//  2. renamed, under the ledger's lock: now it has its name, whole. It is not waited for the disk:
//  what a power cut leaves
//     half written, the checksums find.
//  3. used: every use puts down its time in the file.
//  4. gone: dropped to keep the limit, the longest unused first; or found damaged.
// A process that dies at any moment leaves at most a temporary file that nobody locks, which the
// next one that opens the folder or makes room in it removes. What is not named like our files is
// never touched.
//
// The limit holds at every moment, for all processes together: a small ledger in the folder,
// changed only under its lock, has an upper bound of the bytes in use. Processes that die leave it
// too high, never too low; it is made exact whenever room is needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/descriptor.h"
#include "base/result.h"
#include "kv/disk_block_file.h"
#include "kv/disk_ledger.h"

namespace baton {

struct DiskTierConfig {
  std::string folder;  // made if it is not there, for its owner's eyes only
  uint64_t limit_bytes = 0;
  DiskBlockKind kind;
  // Wall time in nanoseconds, of one clock for all processes that share the folder.
  std::function<int64_t()> now_ns;
};

// Since the tier was opened, by this process. Units: blocks.
struct DiskTierCounters {
  int64_t hits = 0;
  int64_t misses = 0;   // not there
  int64_t refused = 0;  // of another kind, other tokens, or unreadable
  int64_t damaged = 0;  // removed
  int64_t written = 0;
  int64_t evicted = 0;
};

// The machine's wall clock.
int64_t WallClockNs();

// Whether DiskTier::Open would get by with this folder; makes and changes nothing.
// Errors: as there.
Result<> CheckDiskFolder(const std::string& folder);

// Threads: one at a time. Move-only.
class DiskTier {
 public:
  // Files of one folder beyond this number are not looked at when room is made.
  static constexpr size_t kMaxFiles = size_t{1} << 20;
  // What a process waits for the ledger's lock at most, before it goes on without storing.
  static constexpr int kLockPatienceMs = 50;

  // Opens a folder, removes what dead processes left, and keeps the limit in it.
  // Errors: invalid (it cannot be made or written, or the limit is below one block), internal.
  static Result<DiskTier> Open(const DiskTierConfig& config);

  // Stores a block, unless it is there already. Returns whether it was written.
  // Requires: the tokens are not empty; `bytes` is a block of the layout.
  // Errors: exhausted (larger than the limit), unavailable (another process holds the ledger),
  // internal (disk full, ...). After any of them nothing is stored and all else is as before.
  Result<bool> Put(const DiskBlockId& id, std::span<const std::byte> bytes);

  // Reads a block. Returns false, and leaves anything in `bytes`, if it is not there or not exactly
  // what was asked for; a damaged file is removed.
  // Requires: `bytes` has room for a block of the layout. Memory: allocates nothing that counts.
  bool Get(const DiskBlockId& id, std::span<std::byte> bytes);

  // Whether there is a file for the block. Only Get says whether it is good.
  bool Has(const Hash128& name) const;

  const DiskTierCounters& counters() const { return counters_; }

 private:
  struct Found;

  explicit DiskTier(const DiskTierConfig& config) : config_(config) {}
  Result<> MakeRoom(const DiskLedger::Lock& lock, uint64_t bytes);
  Result<Found> Survey();
  Result<Descriptor> Create(uint64_t bytes, std::string& name);
  struct FinishArgs {
    const Result<>& written;
    const std::string& temporary;
    const char* name;
    uint64_t bytes;
  };
  Result<bool> Finish(const FinishArgs& args);
  void GiveBack(const DiskLedger::Lock& lock, uint64_t bytes);
  tl::unexpected<Error> LedgerHeld() const;
  int64_t UseTimeNs(const DiskBlockId& id) const;

  DiskTierConfig config_;
  Descriptor folder_;
  DiskLedger ledger_;
  uint64_t num_created_ = 0;
  DiskTierCounters counters_;
};

}  // namespace baton
