#include "cli/plot_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "cli/output.h"

namespace baton {

Result<PlotFile> PlotFile::Open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd >= 0) return PlotFile(fd, path, /*is_new=*/true);
  const int old = errno == EEXIST ? ::open(path.c_str(), O_WRONLY | O_CLOEXEC) : -1;
  if (old >= 0) return PlotFile(old, path, /*is_new=*/false);
  return Fail(ErrorCode::kInternal,
              fmt::format("cannot write '{}': {}", path, std::system_category().message(errno)));
}

PlotFile::PlotFile(PlotFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)), is_new_(other.is_new_) {}

PlotFile::~PlotFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  if (is_new_) ::unlink(path_.c_str());
}

Result<> PlotFile::Write(const std::string& text) {
  // Devices and pipes cannot be shortened and need not be.
  if (::ftruncate(fd_, 0) != 0 && errno != EINVAL) {
    return Fail(ErrorCode::kInternal,
                fmt::format("cannot write '{}': {}", path_, std::system_category().message(errno)));
  }
  is_new_ = false;
  return FdOutput(fd_, "'" + path_ + "'").Write(text);
}

}  // namespace baton
