#include "cli/output.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace baton {

FdOutput::FdOutput(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}

Result<> FdOutput::Write(std::string_view bytes) {
  if (failed_) return Fail(error_.code, error_.message);
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      // Somebody made the descriptor non-blocking; wait until there is room.
      pollfd waiting = {.fd = fd_, .events = POLLOUT, .revents = 0};
      if (::poll(&waiting, 1, -1) < 0 && errno != EINTR) return Remember(errno);
    } else if (errno != EINTR) {
      return Remember(errno);
    }
  }
  return {};
}

void FdOutput::TryWrite(std::string_view bytes) {
  // A terminal that is stopped (Ctrl-S), or that nobody reads, is not ready.
  pollfd ready = {.fd = fd_, .events = POLLOUT, .revents = 0};
  if (::poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0) return;
  [[maybe_unused]] const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
}

Result<> FdOutput::Remember(int system_error) {
  failed_ = true;
  const bool closed = system_error == EPIPE;
  error_ = Error{
      closed ? ErrorCode::kCancelled : ErrorCode::kInternal,
      fmt::format("cannot write to {}: {}", name_, std::generic_category().message(system_error))};
  return Fail(error_.code, error_.message);
}

Result<> StringOutput::Write(std::string_view bytes) {
  if (closed_) return Fail(ErrorCode::kCancelled, "the reader is gone");
  text_ += bytes;
  return {};
}

}  // namespace baton
