#include "cli/input.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/number_text.h"
#include "text/unicode.h"

namespace baton {
namespace {

constexpr size_t kReadBytes = size_t{1} << 16;

std::string SystemWords(int system_error) {
  return std::generic_category().message(system_error);
}

}  // namespace

FdInput::FdInput(int fd, Options options)
    : fd_(fd), name_(std::move(options.name)), interrupt_(options.interrupt), echo_(options.echo) {}

Result<FdInput::Fill> FdInput::FillBuffer(bool watch_interrupt) {
  while (true) {
    if (watch_interrupt && interrupt_ != nullptr) {
      std::array<pollfd, 2> waiting = {
          pollfd{.fd = fd_, .events = POLLIN, .revents = 0},
          pollfd{.fd = interrupt_->wake_fd(), .events = POLLIN, .revents = 0}};
      if (::poll(waiting.data(), waiting.size(), -1) < 0) {
        if (errno == EINTR) continue;
        return Fail(ErrorCode::kInternal,
                    fmt::format("cannot read {}: {}", name_, SystemWords(errno)));
      }
      if ((waiting[1].revents & POLLIN) != 0) return Fill::kInterrupted;
    }
    std::array<char, kReadBytes> bytes;
    const ssize_t got = ::read(fd_, bytes.data(), bytes.size());
    if (got > 0) {
      buffer_.append(bytes.data(), static_cast<size_t>(got));
      return Fill::kBytes;
    }
    if (got == 0) return Fill::kEnd;
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd waiting = {.fd = fd_, .events = POLLIN, .revents = 0};
      (void)::poll(&waiting, 1, -1);
    } else if (errno != EINTR) {
      return Fail(ErrorCode::kInternal,
                  fmt::format("cannot read {}: {}", name_, SystemWords(errno)));
    }
  }
}

Result<std::string> FdInput::ReadAll(uint64_t max_bytes) {
  while (true) {
    if (buffer_.size() > max_bytes) {
      return Fail(ErrorCode::kExhausted,
                  fmt::format("{} holds more than {} of text", name_, BytesText(max_bytes)));
    }
    const Result<Fill> filled = FillBuffer(false);
    if (!filled) return Forward(filled);
    if (*filled == Fill::kEnd) return std::exchange(buffer_, std::string());
  }
}

Result<Input::Line> FdInput::ReadLine() {
  size_t searched = 0;
  while (true) {
    const size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos) {
      Line line = {LineState::kLine, buffer_.substr(0, end)};
      buffer_.erase(0, end + 1);
      num_unechoed_ -= std::min(num_unechoed_, end + 1);
      if (line.text.ends_with('\r')) line.text.pop_back();
      return line;
    }
    searched = buffer_.size();
    if (searched > kMaxInputBytes) {
      return Fail(ErrorCode::kExhausted,
                  fmt::format("a line of {} is longer than {}", name_, BytesText(kMaxInputBytes)));
    }
    const Result<Fill> filled = is_ended_ ? Result<Fill>(Fill::kEnd) : FillBuffer(true);
    if (!filled) return Forward(filled);
    if (*filled == Fill::kInterrupted) {
      buffer_.clear();
      num_unechoed_ = 0;
      return Line{LineState::kInterrupted, std::string()};
    }
    if (*filled == Fill::kEnd) {
      if (buffer_.empty()) return Line{LineState::kEnd, std::string()};
      return Line{LineState::kLine, std::exchange(buffer_, std::string())};
    }
  }
}

bool FdInput::HasText(int patience_ms) const {
  if (!buffer_.empty()) return true;
  struct stat about {};
  if (::fstat(fd_, &about) != 0) return false;
  if (!S_ISFIFO(about.st_mode) && !S_ISSOCK(about.st_mode) && !S_ISREG(about.st_mode)) return false;
  pollfd waiting = {.fd = fd_, .events = POLLIN, .revents = 0};
  int num_bytes = 0;
  return ::poll(&waiting, 1, patience_ms) == 1 && ::ioctl(fd_, FIONREAD, &num_bytes) == 0 &&
         num_bytes > 0;
}

void FdInput::HoldEcho() {
  if (echo_ != nullptr) echo_->Hold();
}

void FdInput::ReleaseEcho() {
  if (echo_ == nullptr) return;
  const std::string typed = echo_->Release();
  const size_t end = typed.find('\0');
  is_ended_ = is_ended_ || end != std::string::npos;
  buffer_ += typed.substr(0, end);
  num_unechoed_ = buffer_.size();
}

std::string FdInput::Unechoed() const {
  const size_t line_end = buffer_.find('\n');
  const size_t line_size = line_end == std::string::npos ? buffer_.size() : line_end + 1;
  return buffer_.substr(0, std::min(line_size, num_unechoed_));
}

Result<std::string> StringInput::ReadAll(uint64_t max_bytes) {
  if (text_.size() - position_ > max_bytes) {
    return Fail(ErrorCode::kExhausted,
                fmt::format("the input holds more than {} of text", BytesText(max_bytes)));
  }
  std::string rest = text_.substr(position_);
  position_ = text_.size();
  return rest;
}

Result<Input::Line> StringInput::ReadLine() {
  if (position_ == text_.size()) return Line{LineState::kEnd, std::string()};
  const size_t end = std::min(text_.find('\n', position_), text_.size());
  Line line = {LineState::kLine, text_.substr(position_, end - position_)};
  position_ = std::min(end + 1, text_.size());
  return line;
}

Result<std::string> ReadTextOrInput(const std::string& path, Input& standard_input) {
  if (path == "-") return standard_input.ReadAll(kMaxInputBytes);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kInternal;
    return Fail(code, fmt::format("cannot open '{}': {}", path, SystemWords(errno)));
  }
  FdInput file(fd, {.name = fmt::format("'{}'", path)});
  Result<std::string> text = file.ReadAll(kMaxInputBytes);
  ::close(fd);
  return text;
}

Result<std::string> RequireUtf8(std::string text, std::string_view name) {
  const size_t offset = ValidUtf8PrefixLength(text);
  if (offset == text.size()) return text;
  return Fail(ErrorCode::kInvalid,
              fmt::format("{} is not UTF-8: byte 0x{:02X} at offset {}; convert it first, for "
                          "example with iconv",
                          name, static_cast<unsigned char>(text[offset]), offset));
}

}  // namespace baton
