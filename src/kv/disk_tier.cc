#include "kv/disk_tier.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/check.h"

namespace baton {
namespace {

constexpr std::string_view kSuffix = ".baton-block";
constexpr std::string_view kTemporarySuffix = ".baton-new";
// Each block before it in its sequence makes a block count as used this much earlier: the blocks of
// a sequence are used one after the other, and its end has to go first.
constexpr int64_t kNsPerBlock = 1'000'000'000;
// When room has to be made, so much of the limit more than needed, for a survey costs the same.
constexpr uint64_t kRoomShare = 16;

using FileName = std::array<char, 48>;

FileName NameOfFile(const Hash128& name) {
  FileName text = {};
  fmt::format_to_n(text.data(), text.size() - 1, "{:016x}{:016x}{}", name.high, name.low, kSuffix);
  return text;
}

bool IsHex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}
bool IsBlockName(std::string_view name) {
  return name.size() == 32 + kSuffix.size() && name.ends_with(kSuffix) && IsHex(name.substr(0, 32));
}
bool IsTemporaryName(std::string_view name) {
  return name.size() == 32 + kTemporarySuffix.size() && name.ends_with(kTemporarySuffix) &&
         IsHex(name.substr(0, 32));
}

tl::unexpected<Error> SystemError(ErrorCode code, const std::string& folder, const char* what) {
  return Fail(code, fmt::format("disk cache {}: {}: {}; choose another folder", folder, what,
                                std::generic_category().message(errno)));
}

// Whether a new entry can be made in a folder; if not, errno says why.
bool CanMakeIn(int folder) {
  struct statfs system {};
  if (::fstatfs(folder, &system) == 0 && system.f_type == PROC_SUPER_MAGIC) {
    errno = ENOENT;  // as the system says it
    return false;
  }
  return ::faccessat(folder, ".", W_OK | X_OK, AT_EACCESS) == 0;
}

Descriptor OpenFolder(const char* path) {
  return Descriptor(::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

Result<> CheckCanBeMade(const std::string& folder) {
  const std::filesystem::path path = std::filesystem::path(folder + "/").parent_path();
  const std::string parent = path.has_parent_path() ? path.parent_path().string() : ".";
  const Descriptor opened = OpenFolder(parent.c_str());
  if (opened.is_open() && CanMakeIn(opened.get())) return {};
  return SystemError(ErrorCode::kInvalid, folder, "cannot be made");
}

timespec TimeSpecOf(int64_t ns) {
  constexpr int64_t kNsPerSecond = 1'000'000'000;
  return {.tv_sec = ns / kNsPerSecond, .tv_nsec = ns % kNsPerSecond};
}
int64_t NsOf(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// The regular file of this name, not following links.
std::optional<struct stat> FileStatus(int folder, const char* name) {
  struct stat status {};
  if (::fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  if (!S_ISREG(status.st_mode)) return std::nullopt;
  return status;
}

// Renames, but over nothing that is there.
bool RenameToNew(int folder, const char* from, const char* to) {
  struct stat status {};
  if (::fstatat(folder, to, &status, AT_SYMLINK_NOFOLLOW) == 0) {
    errno = EEXIST;
    return false;
  }
  return ::renameat(folder, from, folder, to) == 0;
}

// Removes a temporary file whose writer is gone. Returns whether it did.
bool RemoveIfAbandoned(int folder, const char* name) {
  const Descriptor file(::openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.is_open() || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return false;
  return ::unlinkat(folder, name, 0) == 0;
}

}  // namespace

int64_t WallClockNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// What is in the folder.
struct DiskTier::Found {
  struct File {
    int64_t used_ns;
    uint64_t bytes;
    FileName name;
  };
  std::vector<File> files;
  uint64_t bytes = 0;  // with what is being written
};

Result<> CheckDiskFolder(const std::string& folder) {
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0) {
    if (errno == ENOENT) return CheckCanBeMade(folder);
    return SystemError(ErrorCode::kInvalid, folder, "cannot be made");
  }
  const Descriptor opened = OpenFolder(folder.c_str());
  if (!opened.is_open()) return SystemError(ErrorCode::kInvalid, folder, "cannot be opened");
  if (DiskLedger::CanOpen(opened.get())) return {};
  if (errno == ENOENT && CanMakeIn(opened.get())) return {};
  return SystemError(ErrorCode::kInvalid, folder, "cannot be written");
}

Result<DiskTier> DiskTier::Open(const DiskTierConfig& config) {
  const uint64_t least = DiskBlockFileBytes(config.kind, kBlockTokens);
  if (config.limit_bytes < least) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("disk cache {}: a limit of {} bytes is below one block of {}; allow "
                            "more",
                            config.folder, config.limit_bytes, least));
  }
  DiskTier tier(config);
  const char* folder = config.folder.c_str();
  if (::mkdir(folder, 0700) != 0 && errno != EEXIST) {
    return SystemError(ErrorCode::kInvalid, config.folder, "cannot be made");
  }
  tier.folder_ = OpenFolder(folder);
  if (!tier.folder_.is_open()) {
    return SystemError(ErrorCode::kInvalid, config.folder, "cannot be opened");
  }
  auto ledger = DiskLedger::Open(tier.folder_.get());
  if (!ledger) return SystemError(ErrorCode::kInvalid, config.folder, "cannot be written");
  tier.ledger_ = *std::move(ledger);
  // Who finds the ledger locked leaves the cleaning to who holds it.
  if (const auto lock = tier.ledger_.TakeLock(kLockPatienceMs)) {
    if (!lock->Forget()) {
      return SystemError(ErrorCode::kInternal, config.folder, "its ledger cannot be written");
    }
    if (Result<> made = tier.MakeRoom(*lock, 0); !made) return Forward(made);
  }
  return tier;
}

// Counts what is there, and removes what dead processes left of it.
Result<DiskTier::Found> DiskTier::Survey() {
  // A descriptor of its own: closedir closes it, and the place in the folder is not shared.
  const int descriptor = ::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(
      descriptor < 0 ? nullptr : ::fdopendir(descriptor), ::closedir);
  if (!entries) {
    const auto failure = SystemError(ErrorCode::kInternal, config_.folder, "cannot be listed");
    if (descriptor >= 0) ::close(descriptor);
    return failure;
  }
  Found found;
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    const bool temporary = IsTemporaryName(name);
    if (!temporary && !IsBlockName(name)) continue;
    const auto status = FileStatus(folder_.get(), entry->d_name);
    if (!status || (temporary && RemoveIfAbandoned(folder_.get(), entry->d_name))) continue;
    const auto bytes = static_cast<uint64_t>(status->st_size);
    found.bytes += bytes;
    if (temporary || found.files.size() == kMaxFiles) continue;
    found.files.push_back({.used_ns = NsOf(status->st_mtim), .bytes = bytes, .name = {}});
    std::ranges::copy(name, found.files.back().name.begin());
  }
  return found;
}

// Has the ledger allow `bytes` more and count them. Drops files only if it must.
Result<> DiskTier::MakeRoom(const DiskLedger::Lock& lock, uint64_t bytes) {
  const uint64_t limit = config_.limit_bytes;
  const auto noted = lock.Read();
  if (noted && *noted <= limit - bytes) {
    if (lock.Write(*noted + bytes)) return {};
    return SystemError(ErrorCode::kInternal, config_.folder, "its ledger cannot be written");
  }
  Result<Found> found = Survey();
  if (!found) return Forward(found);
  uint64_t used = found->bytes;
  if (used > limit - bytes) {
    // Times in the future are of a clock that was set back since; they must not last for ever.
    const int64_t now = config_.now_ns();
    const auto age_key = [now](const Found::File& file) {
      return file.used_ns > now ? std::numeric_limits<int64_t>::min() : file.used_ns;
    };
    std::ranges::sort(found->files, {}, age_key);
    const uint64_t target = (limit - bytes) - std::min(limit - bytes, limit / kRoomShare);
    for (const Found::File& file : found->files) {
      if (used <= target) break;
      if (::unlinkat(folder_.get(), file.name.data(), 0) != 0 && errno != ENOENT) continue;
      used -= file.bytes;
      ++counters_.evicted;
    }
  }
  const bool fits = used <= limit - bytes;
  if (!lock.Write(used + (fits ? bytes : 0))) {
    return SystemError(ErrorCode::kInternal, config_.folder, "its ledger cannot be written");
  }
  if (fits) return {};
  return Fail(ErrorCode::kUnavailable,
              fmt::format("disk cache {}: {} of {} bytes are in use and cannot be dropped now",
                          config_.folder, used, limit));
}

// A temporary file of so many bytes, locked. Requires: the ledger is locked, so that nobody takes
// the file for abandoned before its own lock is on it.
Result<Descriptor> DiskTier::Create(uint64_t bytes, std::string& name) {
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    name = fmt::format("{:016x}{:016x}{}", static_cast<uint64_t>(::getpid()), num_created_++,
                       kTemporarySuffix);
    Descriptor file(::openat(folder_.get(), name.c_str(),
                             O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file.is_open() && errno == EEXIST) continue;
    if (!file.is_open()) break;
    if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0 &&
        ::ftruncate(file.get(), static_cast<off_t>(bytes)) == 0) {
      return file;
    }
    ::unlinkat(folder_.get(), name.c_str(), 0);
    break;
  }
  return SystemError(ErrorCode::kInternal, config_.folder, "cannot be written");
}

Result<bool> DiskTier::Put(const DiskBlockId& id, std::span<const std::byte> bytes) {
  CHECK(!id.tokens.empty());
  const FileName name = NameOfFile(id.name);
  const timespec time = TimeSpecOf(UseTimeNs(id));
  const timespec times[2] = {time, time};
  if (FileStatus(folder_.get(), name.data())) {
    ::utimensat(folder_.get(), name.data(), times, AT_SYMLINK_NOFOLLOW);
    return false;
  }
  const uint64_t file_bytes = DiskBlockFileBytes(config_.kind, id.tokens.size());
  if (file_bytes > config_.limit_bytes) {
    return Fail(ErrorCode::kExhausted,
                fmt::format("disk cache {}: a block of {} bytes is beyond the limit of {}",
                            config_.folder, file_bytes, config_.limit_bytes));
  }
  std::string temporary;
  Result<Descriptor> file = Descriptor();
  {
    const auto lock = ledger_.TakeLock(kLockPatienceMs);
    if (!lock) return LedgerHeld();
    if (Result<> room = MakeRoom(*lock, file_bytes); !room) return Forward(room);
    file = Create(file_bytes, temporary);
    if (!file) {
      GiveBack(*lock, file_bytes);
      return Forward(file);
    }
  }
  Result<> written =
      WriteDiskBlock({.descriptor = file->get(), .kind = config_.kind, .id = id, .bytes = bytes});
  if (written && ::futimens(file->get(), times) != 0) {
    written = SystemError(ErrorCode::kInternal, config_.folder, "cannot be written");
  }
  return Finish(
      {.written = written, .temporary = temporary, .name = name.data(), .bytes = file_bytes});
}

// Ends a Put: gives a file that was written its name, or takes back what was begun. Under the lock,
// for a survey that a file is renamed under may miss both of its names.
Result<bool> DiskTier::Finish(const FinishArgs& args) {
  const auto lock = ledger_.TakeLock(kLockPatienceMs);
  Result<> named = args.written;
  const bool new_name = !FileStatus(folder_.get(), args.name).has_value();
  if (named && !lock) named = LedgerHeld();
  if (named && new_name && !RenameToNew(folder_.get(), args.temporary.c_str(), args.name)) {
    named = SystemError(ErrorCode::kInternal, config_.folder, "cannot be written");
  }
  if (named && new_name) {
    ++counters_.written;
    return true;
  }
  // Without the lock the ledger counts it until the next survey.
  const bool removed = ::unlinkat(folder_.get(), args.temporary.c_str(), 0) == 0;
  if (removed && lock) GiveBack(*lock, args.bytes);
  if (!named) return Forward(named);
  return false;
}

void DiskTier::GiveBack(const DiskLedger::Lock& lock, uint64_t bytes) {
  const auto noted = lock.Read();
  if (noted && *noted >= bytes) static_cast<void>(lock.Write(*noted - bytes));
}

tl::unexpected<Error> DiskTier::LedgerHeld() const {
  return Fail(ErrorCode::kUnavailable,
              fmt::format("disk cache {}: another process holds its ledger", config_.folder));
}

bool DiskTier::Get(const DiskBlockId& id, std::span<std::byte> bytes) {
  const FileName name = NameOfFile(id.name);
  const Descriptor file(
      ::openat(folder_.get(), name.data(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.is_open()) {
    ++(errno == ENOENT ? counters_.misses : counters_.refused);
    return false;
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    ++counters_.refused;
    return false;
  }
  switch (
      ReadDiskBlock({.descriptor = file.get(), .kind = config_.kind, .id = id, .bytes = bytes})) {
    case DiskBlockRead::kGood: {
      const timespec time = TimeSpecOf(UseTimeNs(id));
      const timespec times[2] = {time, time};
      ::futimens(file.get(), times);
      ++counters_.hits;
      return true;
    }
    case DiskBlockRead::kDamaged:
      ::unlinkat(folder_.get(), name.data(), 0);
      ++counters_.damaged;
      return false;
    case DiskBlockRead::kDiffers:
    case DiskBlockRead::kUnreadable:
      break;
  }
  ++counters_.refused;
  return false;
}

bool DiskTier::Has(const Hash128& name) const {
  return FileStatus(folder_.get(), NameOfFile(name).data()).has_value();
}

int64_t DiskTier::UseTimeNs(const DiskBlockId& id) const {
  const auto num_blocks = static_cast<int64_t>(id.tokens.size()) / kBlockTokens;
  return std::max<int64_t>(config_.now_ns() - kNsPerBlock * num_blocks, 0);
}

}  // namespace baton
