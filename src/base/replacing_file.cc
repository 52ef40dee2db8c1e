#include "base/replacing_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "base/check.h"

namespace baton {
namespace {

tl::unexpected<Error> SystemError(const std::string& path, const char* what) {
  return Fail(ErrorCode::kInternal,
              fmt::format("{}: {}: {}", path, what, std::generic_category().message(errno)));
}

}  // namespace

ReplacingFile::ReplacingFile(std::string path, std::string temporary_path, int descriptor)
    : path_(std::move(path)), temporary_path_(std::move(temporary_path)), descriptor_(descriptor) {}

ReplacingFile::ReplacingFile(ReplacingFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_path_(std::move(other.temporary_path_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

ReplacingFile& ReplacingFile::operator=(ReplacingFile&& other) noexcept {
  if (this == &other) return *this;
  Drop();
  path_ = std::move(other.path_);
  temporary_path_ = std::move(other.temporary_path_);
  descriptor_ = std::exchange(other.descriptor_, -1);
  return *this;
}

ReplacingFile::~ReplacingFile() {
  Drop();
}

void ReplacingFile::Drop() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_path_.c_str());
  descriptor_ = -1;
}

Result<ReplacingFile> ReplacingFile::Create(const std::string& path) {
  // Renaming would put a file in the place of the device.
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
    return Fail(ErrorCode::kInvalid,
                path + ": cannot be created: a device or pipe is there; choose another name");
  }
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::string name = fmt::format("{}.{}-{}.tmp", path, ::getpid(), attempt);
    const int descriptor = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) return ReplacingFile(path, std::move(name), descriptor);
    if (errno != EEXIST) break;
  }
  return SystemError(path, "cannot be created");
}

Result<> ReplacingFile::WriteAt(uint64_t offset, std::span<const std::byte> bytes) {
  CHECK_GE(descriptor_, 0);
  while (!bytes.empty()) {
    const ssize_t count =
        ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(path_, "cannot be written");
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
  return {};
}

Result<> ReplacingFile::Finish(uint64_t num_bytes) {
  CHECK_GE(descriptor_, 0);
  if (::ftruncate(descriptor_, static_cast<off_t>(num_bytes)) != 0 || ::fsync(descriptor_) != 0) {
    return SystemError(path_, "cannot be written");
  }
  if (::rename(temporary_path_.c_str(), path_.c_str()) != 0) {
    return SystemError(path_, "cannot be created");
  }
  ::close(std::exchange(descriptor_, -1));
  return {};
}

}  // namespace baton
