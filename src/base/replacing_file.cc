#include "base/replacing_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/check.h"

namespace baton {
namespace {

namespace fs = std::filesystem;

// Names to try for one file; others may be in use by writers of the same path.
constexpr int kMaxNames = 100;

std::string_view WayOut(int system_error) {
  switch (system_error) {
    case EISDIR:
      return "; name a file in it";
    case ENOENT:
      return "; make the folder first";
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "; make room, or choose another place";
    default:
      return "; choose another name or place";
  }
}

tl::unexpected<Error> CannotWrite(const std::string& path, int system_error) {
  const ErrorCode code = system_error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kInternal;
  return Fail(code,
              fmt::format("cannot write '{}': {}{}", path,
                          std::generic_category().message(system_error), WayOut(system_error)));
}

fs::path FolderOf(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// That no new file came to be at `target`, which `path` leads to. A system that has folders without
// a place for files in them (/proc) calls that a missing folder.
tl::unexpected<Error> CannotCreate(const std::string& path, const fs::path& target,
                                   int system_error) {
  std::error_code error;
  if (system_error != ENOENT || !fs::is_directory(FolderOf(target), error)) {
    return CannotWrite(path, system_error);
  }
  return Fail(ErrorCode::kInternal,
              fmt::format("cannot write '{}': no file can be made in the folder {}; choose another "
                          "place",
                          path, FolderOf(target).string()));
}

// Links there (/dev/stdout leads to one) name open files, not places: the name that reading one
// gives may be that of another file by now, or of none.
bool IsInProc(const fs::path& path) {
  struct statfs system {};
  return ::statfs(FolderOf(path).c_str(), &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

// The file that a chain of symbolic links at the end of a path leads to; it need not exist, so
// realpath will not do.
Result<std::string> FollowLinks(const std::string& path) {
  constexpr int kMaxLinks = 40;  // as the kernel
  fs::path target = path;
  std::error_code error;
  for (int i = 0; i < kMaxLinks; ++i) {
    if (!fs::is_symlink(target, error)) return target.string();
    if (IsInProc(target)) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("cannot write '{}': it stands for a file that is open; name the file "
                              "itself",
                              path));
    }
    const fs::path next = fs::read_symlink(target, error);
    if (error) return CannotWrite(path, error.value());
    target = target.parent_path() / next;  // an absolute `next` stands alone
  }
  return CannotWrite(path, ELOOP);
}

// The first bytes of a file, or the system's error.
struct Head {
  std::string bytes;
  int system_error = 0;
};
Head ReadHead(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return {.bytes = {}, .system_error = errno};
  Head head{.bytes = std::string(FileKind::kHeadBytes, '\0')};
  const ssize_t count = ::pread(fd, head.bytes.data(), head.bytes.size(), 0);
  if (count < 0) head.system_error = errno;
  head.bytes.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
  ::close(fd);
  return head;
}

// Errors: invalid (it is of another kind), internal (it cannot be read or written). Requires: there
// is a regular file.
Result<> CheckReplaceable(const std::string& path, const FileKind& kind) {
  // Renaming asks the folder only; a file that is closed to writing is to stay as it is.
  if (::access(path.c_str(), W_OK) != 0) return CannotWrite(path, errno);
  const Head head = ReadHead(path);
  if (head.system_error == 0 && (head.bytes.empty() || kind.holds(head.bytes))) return {};
  const std::string why = head.system_error == 0
                              ? fmt::format("it holds something else than {}", kind.name)
                              : fmt::format("whether it holds {} cannot be seen: {}", kind.name,
                                            std::generic_category().message(head.system_error));
  return Fail(
      ErrorCode::kInvalid,
      fmt::format("'{}' is there, and {}; remove it first, or choose another name", path, why));
}

// What the temporary names of a target begin with. Short enough for what follows.
std::string TemporaryStem(const fs::path& target) {
  constexpr size_t kMaxBytes = 200;
  return target.filename().string().substr(0, kMaxBytes) + ".";
}

std::string TemporaryName(const fs::path& target, int attempt) {
  return target.parent_path() /
         fmt::format("{}{}-{}.tmp", TemporaryStem(target), ::getpid(), attempt);
}

// Whether it is what TemporaryName puts behind the stem.
bool IsTemporaryEnd(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  const size_t dash = text.find_first_not_of(kDigits);
  if (dash == 0 || dash == std::string_view::npos || text[dash] != '-') return false;
  text.remove_prefix(dash + 1);
  const size_t dot = text.find_first_not_of(kDigits);
  return dot != 0 && dot != std::string_view::npos && text.substr(dot) == ".tmp";
}

// Every writer holds a lock on what it writes until it ends, in whatever way.
void RemoveIfAbandoned(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return;
  struct stat status {};
  if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && ::flock(fd, LOCK_EX | LOCK_NB) == 0) {
    ::unlink(path.c_str());
  }
  ::close(fd);
}

// Removes what killed writers of this target left.
void RemoveLeftovers(const std::string& target) {
  constexpr int kMaxEntries = 100'000;
  const std::string stem = TemporaryStem(target);
  std::error_code error;
  fs::directory_iterator entry(FolderOf(target), error);
  for (int i = 0; !error && entry != fs::directory_iterator() && i < kMaxEntries; ++i) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(stem) && IsTemporaryEnd(std::string_view(name).substr(stem.size()))) {
      RemoveIfAbandoned(entry->path());
    }
    entry.increment(error);
  }
}

std::string OpenFileName(int descriptor) {
  return fmt::format("/proc/self/fd/{}", descriptor);
}

// A file without a name in the target's folder; -1 where that cannot be, or not get a name later.
int OpenUnnamed(const std::string& target, mode_t mode) {
  const int fd = ::open(FolderOf(target).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
  if (fd < 0 || ::access(OpenFileName(fd).c_str(), F_OK) == 0) return fd;
  ::close(fd);
  return -1;
}

struct Opened {
  int descriptor = -1;
  std::string name;  // empty: none
};

// A file with a temporary name, locked. Errors: of the system, in errno.
Opened OpenNamed(const std::string& target, mode_t mode) {
  for (int attempt = 0; attempt < kMaxNames; ++attempt) {
    std::string name = TemporaryName(target, attempt);
    const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0) return {};
    // Before it was locked, another writer may have taken it for abandoned.
    struct stat status {};
    const bool is_lost = ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!is_lost && ::fstat(fd, &status) == 0 && status.st_nlink > 0) return {fd, std::move(name)};
    ::close(fd);
  }
  return {};
}

// Makes the disk keep the new name of a file. Not all file systems can, and a folder may be closed
// to reading: both are no failures.
int SyncFolderOf(const std::string& path) {
  const int fd = ::open(FolderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return 0;
  const int failure = ::fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP ? errno : 0;
  (void)::close(fd);
  return failure;
}

// Everything that can be known before anything is written.
struct Target {
  std::string path;
  std::optional<mode_t> mode;  // of the old file, if there is one
};
Result<Target> FindTarget(const std::string& path, const FileKind& kind) {
  struct stat old {};
  const bool is_there = ::stat(path.c_str(), &old) == 0;
  if (!is_there && errno != ENOENT) return CannotWrite(path, errno);
  const bool names_folder = path.ends_with('/') || (is_there && S_ISDIR(old.st_mode));
  if (names_folder) return CannotWrite(path, EISDIR);
  // Renaming would put a file in the place of the device.
  if (is_there && !S_ISREG(old.st_mode)) {
    return Fail(
        ErrorCode::kInvalid,
        fmt::format("cannot write '{}': a device or pipe is there; choose another name", path));
  }
  Result<std::string> target = FollowLinks(path);
  if (!target) return Forward(target);
  if (!is_there) return Target{.path = *std::move(target), .mode = std::nullopt};
  if (Result<> replaceable = CheckReplaceable(path, kind); !replaceable) {
    return Forward(replaceable);
  }
  return Target{.path = *std::move(target), .mode = old.st_mode & 07777};
}

}  // namespace

ReplacingFile::ReplacingFile(Place place, int descriptor)
    : place_(std::move(place)), descriptor_(descriptor) {}

ReplacingFile::ReplacingFile(ReplacingFile&& other) noexcept
    : place_(std::move(other.place_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

ReplacingFile& ReplacingFile::operator=(ReplacingFile&& other) noexcept {
  if (this == &other) return *this;
  Drop();
  place_ = std::move(other.place_);
  descriptor_ = std::exchange(other.descriptor_, -1);
  return *this;
}

ReplacingFile::~ReplacingFile() {
  Drop();
}

void ReplacingFile::Drop() {
  if (descriptor_ < 0) return;
  if (!place_.temporary.empty()) ::unlink(place_.temporary.c_str());
  ::close(descriptor_);
  descriptor_ = -1;
}

Result<ReplacingFile> ReplacingFile::Create(const std::string& path, const FileKind& kind) {
  Result<Target> target = FindTarget(path, kind);
  if (!target) return Forward(target);
  const int descriptor = OpenUnnamed(target->path, kind.is_private ? 0600 : 0666);
  if (descriptor < 0) return CreateNamed(path, kind);
  // A lock for the moment in which it has a temporary name; where there are none, that is short.
  (void)::flock(descriptor, LOCK_EX | LOCK_NB);
  if (target->mode.has_value()) (void)::fchmod(descriptor, *target->mode);
  RemoveLeftovers(target->path);
  return ReplacingFile({.path = path, .target = std::move(target->path), .temporary = {}},
                       descriptor);
}

Result<ReplacingFile> ReplacingFile::CreateNamed(const std::string& path, const FileKind& kind) {
  Result<Target> target = FindTarget(path, kind);
  if (!target) return Forward(target);
  RemoveLeftovers(target->path);
  Opened opened = OpenNamed(target->path, kind.is_private ? 0600 : 0666);
  if (opened.descriptor < 0) return CannotCreate(path, target->path, errno);
  if (target->mode.has_value()) (void)::fchmod(opened.descriptor, *target->mode);
  return ReplacingFile(
      {.path = path, .target = std::move(target->path), .temporary = std::move(opened.name)},
      opened.descriptor);
}

Result<> ReplacingFile::WriteAt(uint64_t offset, std::span<const std::byte> bytes) {
  CHECK_GE(descriptor_, 0);
  while (!bytes.empty()) {
    const ssize_t count =
        ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return CannotWrite(place_.path, errno);
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
  return {};
}

// Gives the file its place. False: it could not, and errno says why.
bool ReplacingFile::TakeName() {
  const std::string open_file = OpenFileName(descriptor_);
  const auto link = [&](const std::string& name) {
    return ::linkat(AT_FDCWD, open_file.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
  };
  if (place_.temporary.empty() && link(place_.target)) return true;
  // Nothing can be linked over a file that is there.
  for (int attempt = 0; place_.temporary.empty() && attempt < kMaxNames; ++attempt) {
    std::string name = TemporaryName(place_.target, attempt);
    if (link(name)) {
      place_.temporary = std::move(name);
    } else if (errno != EEXIST) {
      return false;
    }
  }
  return !place_.temporary.empty() &&
         ::rename(place_.temporary.c_str(), place_.target.c_str()) == 0;
}

Result<> ReplacingFile::Finish(uint64_t num_bytes) {
  CHECK_GE(descriptor_, 0);
  if (::ftruncate(descriptor_, static_cast<off_t>(num_bytes)) != 0 || ::fsync(descriptor_) != 0 ||
      !TakeName()) {
    return CannotWrite(place_.path, errno);
  }
  ::close(std::exchange(descriptor_, -1));
  const int failure = SyncFolderOf(place_.target);
  if (failure != 0) return CannotWrite(place_.path, failure);
  return {};
}

}  // namespace baton
