#include "cli/output.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <system_error>
#include <utility>

namespace baton {
namespace {

constexpr int kLookMs = 100;

}  // namespace

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

Result<> FdOutput::WriteWhile(std::string_view bytes, const std::function<bool()>& may_wait) {
  if (failed_) return Fail(error_.code, error_.message);
  while (!bytes.empty()) {
    pollfd ready = {.fd = fd_, .events = POLLOUT, .revents = 0};
    int found = ::poll(&ready, 1, 0);
    if (found == 0) {
      if (!may_wait()) return Fail(ErrorCode::kDeadline, fmt::format("nobody reads {}", name_));
      found = ::poll(&ready, 1, kLookMs);
    }
    if (found < 0 && errno != EINTR) return Remember(errno);
    if (found <= 0) continue;
    // A pipe that is ready takes so many bytes without waiting.
    const ssize_t written = ::write(fd_, bytes.data(), std::min<size_t>(bytes.size(), PIPE_BUF));
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
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
