// The file in a folder of the disk tier that says how many bytes the folder uses. Whoever adds
// files or counts them holds its lock.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/descriptor.h"

namespace baton {

// An open ledger. Move-only.
class DiskLedger {
 public:
  // The file's name in its folder.
  static constexpr const char* kFileName = "ledger.baton-kv";

  // The ledger while this process holds its lock. Move-only; unlocks at the end, also if the
  // process dies.
  class Lock {
   public:
    Lock(Lock&& other) noexcept;
    Lock& operator=(Lock&&) = delete;
    ~Lock();

    // What was noted; nothing if the ledger is new or damaged. Units: bytes.
    std::optional<uint64_t> Read() const;
    // Notes a number. Returns whether that was possible.
    bool Write(uint64_t used_bytes) const;
    // Has the next Read return nothing. Returns whether that was possible.
    bool Forget() const;

   private:
    friend class DiskLedger;
    explicit Lock(int descriptor) : descriptor_(descriptor) {}
    int descriptor_;
  };

  // A closed one.
  DiskLedger() = default;

  // Opens the ledger of a folder; makes it if it is not there. Nothing on failure, with errno set.
  static std::optional<DiskLedger> Open(int folder_descriptor);
  // Whether there is one that could be opened; if not, errno says why.
  static bool CanOpen(int folder_descriptor);

  // Takes the lock; nothing if another process has it for longer than patience_ms.
  // Requires: opened.
  std::optional<Lock> TakeLock(int patience_ms) const;

 private:
  explicit DiskLedger(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}
  Descriptor descriptor_;
};

}  // namespace baton
