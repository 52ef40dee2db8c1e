#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <string>

namespace baton {
namespace {

constexpr std::string_view kStartAndErase = "\r\x1b[K";
// Drawing takes microseconds, unless the terminal is stopped.
constexpr std::chrono::milliseconds kPatience(50);

}  // namespace

bool IsLiveTerminal(int fd, std::string_view term) {
  return ::isatty(fd) == 1 && !term.empty() && term != "dumb";
}

int TerminalColumns(int fd) {
  winsize size{};
  const bool known = ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20;
  return known ? size.ws_col : 80;
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
  std::unique_lock<std::timed_mutex> lock(mutex_, kPatience);
  if (lock.owns_lock() && shown_) {
    shown_ = false;
    out_.TryWrite(kStartAndErase);
  }
  return lock;
}

}  // namespace baton
