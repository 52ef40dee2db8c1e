#include "kv/disk_ledger.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <thread>
#include <utility>

#include "base/hash.h"

namespace baton {
namespace {

constexpr uint64_t kMagic = 0x3152454744454c42;  // "BLEDGER1"

constexpr int kOpenFlags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;

struct LedgerEntry {
  uint64_t magic;
  uint64_t used_bytes;
  uint64_t checksum;  // of the two before
};

uint64_t ChecksumOf(const LedgerEntry& entry) {
  return Checksum64(std::as_bytes(std::span(&entry, 1)).first(offsetof(LedgerEntry, checksum)));
}

}  // namespace

DiskLedger::Lock::Lock(Lock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

DiskLedger::Lock::~Lock() {
  if (descriptor_ >= 0) ::flock(descriptor_, LOCK_UN);
}

std::optional<uint64_t> DiskLedger::Lock::Read() const {
  LedgerEntry entry{};
  if (::pread(descriptor_, &entry, sizeof(entry), 0) != sizeof(entry)) return std::nullopt;
  if (entry.magic != kMagic || entry.checksum != ChecksumOf(entry)) return std::nullopt;
  return entry.used_bytes;
}

bool DiskLedger::Lock::Write(uint64_t used_bytes) const {
  LedgerEntry entry{.magic = kMagic, .used_bytes = used_bytes, .checksum = 0};
  entry.checksum = ChecksumOf(entry);
  return ::pwrite(descriptor_, &entry, sizeof(entry), 0) == sizeof(entry);
}

bool DiskLedger::Lock::Forget() const {
  return ::ftruncate(descriptor_, 0) == 0;
}

bool DiskLedger::CanOpen(int folder_descriptor) {
  return Descriptor(::openat(folder_descriptor, kFileName, kOpenFlags)).is_open();
}

std::optional<DiskLedger> DiskLedger::Open(int folder_descriptor) {
  Descriptor descriptor(::openat(folder_descriptor, kFileName, kOpenFlags | O_CREAT, 0600));
  if (!descriptor.is_open()) return std::nullopt;
  return DiskLedger(std::move(descriptor));
}

std::optional<DiskLedger::Lock> DiskLedger::TakeLock(int patience_ms) const {
  for (int waited_ms = 0; ::flock(descriptor_.get(), LOCK_EX | LOCK_NB) != 0; ++waited_ms) {
    if (waited_ms >= patience_ms) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return Lock(descriptor_.get());
}

}  // namespace baton
