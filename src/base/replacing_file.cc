#include "base/replacing_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/check.h"

namespace baton {
namespace {

tl::unexpected<Error> CannotWrite(const std::string& path, int system_error) {
  const ErrorCode code = system_error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kInternal;
  return Fail(code, fmt::format("cannot write '{}': {}", path,
                                std::generic_category().message(system_error)));
}

// The file that a chain of symbolic links at the end of a path leads to; it need not exist, so
// realpath will not do.
Result<std::string> FollowLinks(const std::string& path) {
  constexpr int kMaxLinks = 40;  // as the kernel
  std::filesystem::path target = path;
  std::error_code error;
  for (int i = 0; i < kMaxLinks; ++i) {
    if (!std::filesystem::is_symlink(target, error)) return target.string();
    const std::filesystem::path next = std::filesystem::read_symlink(target, error);
    if (error) return CannotWrite(path, error.value());
    target = target.parent_path() / next;  // an absolute `next` stands alone
  }
  return CannotWrite(path, ELOOP);
}

// Makes the disk keep the new name of a file. Not all file systems can, and a folder may be closed
// to reading: both are no failures.
int SyncFolderOf(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return 0;
  const int failure = ::fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP ? errno : 0;
  (void)::close(fd);
  return failure;
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
  ::close(descriptor_);
  ::unlink(place_.temporary.c_str());
  descriptor_ = -1;
}

Result<ReplacingFile> ReplacingFile::Create(const std::string& path) {
  struct stat old {};
  const bool is_there = ::stat(path.c_str(), &old) == 0;
  if (is_there && S_ISDIR(old.st_mode)) return CannotWrite(path, EISDIR);
  // Renaming would put a file in the place of the device.
  if (is_there && !S_ISREG(old.st_mode)) {
    return Fail(
        ErrorCode::kInvalid,
        fmt::format("cannot write '{}': a device or pipe is there; choose another name", path));
  }
  Result<std::string> target = FollowLinks(path);
  if (!target) return Forward(target);
  // Renaming asks the folder only; a file that is closed to writing is to stay as it is.
  if (is_there && ::access(target->c_str(), W_OK) != 0) return CannotWrite(path, errno);
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::string name = fmt::format("{}.{}-{}.tmp", *target, ::getpid(), attempt);
    const int descriptor = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) {
      if (is_there) (void)::fchmod(descriptor, old.st_mode & 07777);
      return ReplacingFile(
          {.path = path, .target = *std::move(target), .temporary = std::move(name)}, descriptor);
    }
    if (errno != EEXIST) break;
  }
  return CannotWrite(path, errno);
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

Result<> ReplacingFile::Finish(uint64_t num_bytes) {
  CHECK_GE(descriptor_, 0);
  if (::ftruncate(descriptor_, static_cast<off_t>(num_bytes)) != 0 || ::fsync(descriptor_) != 0 ||
      ::rename(place_.temporary.c_str(), place_.target.c_str()) != 0) {
    return CannotWrite(place_.path, errno);
  }
  ::close(std::exchange(descriptor_, -1));
  const int failure = SyncFolderOf(place_.target);
  if (failure != 0) return CannotWrite(place_.path, failure);
  return {};
}

}  // namespace baton
