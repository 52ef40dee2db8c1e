#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <chrono>

namespace baton {
namespace {

constexpr std::string_view kStartAndErase = "\r\x1b[K";
// Drawing takes microseconds, unless the terminal is stopped.
constexpr std::chrono::milliseconds kPatience(50);
// Far more than a terminal keeps.
constexpr size_t kMaxTypedBytes = size_t{1} << 20;

}  // namespace

bool IsLiveTerminal(int fd, std::string_view term) {
  return ::isatty(fd) == 1 && !term.empty() && term != "dumb";
}

int TerminalColumns(int fd) {
  winsize size{};
  const bool known = ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20;
  return known ? size.ws_col : 80;
}

void TerminalEcho::Hold() {
  std::lock_guard<std::mutex> lock(mutex_);
  termios now{};
  if (before_.has_value() || ::tcgetattr(fd_, &now) != 0 || (now.c_lflag & ECHO) == 0) return;
  before_ = now;
  now.c_lflag &= ~static_cast<tcflag_t>(ECHO);
  (void)::tcsetattr(fd_, TCSANOW, &now);
}

std::string TerminalEcho::Release() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::string typed;
  if (!before_.has_value()) return typed;
  // Line by line, the terminal would keep a half line to itself, and nobody would see it.
  termios raw = *before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  if (::tcsetattr(fd_, TCSANOW, &raw) == 0) {
    std::array<char, 4096> bytes;
    ssize_t got = 0;
    while (typed.size() < kMaxTypedBytes && (got = ::read(fd_, bytes.data(), bytes.size())) > 0) {
      typed.append(bytes.data(), static_cast<size_t>(got));
    }
  }
  (void)::tcsetattr(fd_, TCSANOW, &*before_);
  before_.reset();
  return typed;
}

void TerminalEcho::Restore() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!before_.has_value()) return;
  (void)::tcsetattr(fd_, TCSANOW, &*before_);
  before_.reset();
}

void StatusLine::Draw(std::string_view text) {
  if (!live_) return;
  std::lock_guard<std::timed_mutex> lock(mutex_);
  shown_ = true;
  std::string bytes(kStartAndErase);
  bytes += text;
  // A terminal that takes no more has nobody to tell.
  (void)out_.Write(bytes);
}

void StatusLine::Clear() {
  std::lock_guard<std::timed_mutex> lock(mutex_);
  if (!shown_) return;
  shown_ = false;
  (void)out_.Write(kStartAndErase);
}

std::unique_lock<std::timed_mutex> StatusLine::EraseForExit() {
  if (echo_ != nullptr) echo_->Restore();
  std::unique_lock<std::timed_mutex> lock(mutex_, kPatience);
  if (lock.owns_lock() && shown_) {
    shown_ = false;
    out_.TryWrite(kStartAndErase);
  }
  return lock;
}

}  // namespace baton
