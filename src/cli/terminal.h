// The terminal behind a descriptor, and the one line of it that comes and goes.
#pragma once

#include <termios.h>

#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "cli/output.h"

namespace baton {

// Whether the descriptor is a terminal that understands a carriage return and "erase to the end of
// the line". `term` is the value of TERM, empty if unset.
bool IsLiveTerminal(int fd, std::string_view term);

// Columns of the terminal behind the descriptor; 80 if it does not say.
int TerminalColumns(int fd);

// The echo of what is typed at a terminal, which can be held back: typed while a model is loaded,
// it would stand in the middle of the status line, and nowhere near the prompt it is meant for.
// Threads: any.
class TerminalEcho {
 public:
  // Does nothing unless the descriptor is a terminal that echoes.
  explicit TerminalEcho(int fd) : fd_(fd) {}
  // As Release, but what was typed stays where it is.
  ~TerminalEcho() { Restore(); }
  TerminalEcho(const TerminalEcho&) = delete;
  TerminalEcho& operator=(const TerminalEcho&) = delete;

  void Hold();

  // Ends Hold. Returns what was typed meanwhile, a half line too; it has been taken out of the
  // terminal and shown nowhere. A Ctrl-D among it is a zero byte.
  std::string Release();

  // Puts the terminal back as it was before Hold. For a program that is about to end.
  void Restore();

 private:
  const int fd_;
  std::mutex mutex_;
  std::optional<termios> before_;  // guarded by mutex_; set while held
};

// A line at the foot of the terminal that is rewritten in place and leaves no trace.
// Threads: one, that of `out`; EraseForExit any.
class StatusLine {
 public:
  // Nothing is ever drawn unless `live`. `echo`, which may be null, is put back by EraseForExit.
  // Requires: `out` and `echo` outlive the line.
  StatusLine(Output& out, bool live, TerminalEcho* echo) : out_(out), live_(live), echo_(echo) {}

  bool live() const { return live_; }

  // Replaces the line by `text`, which must fit the terminal's width and hold no control bytes.
  void Draw(std::string_view text);

  // Takes the line away, if one is shown.
  void Clear();

  // Leaves the terminal in order for a program that is about to end: takes the line away, keeps it
  // away while the returned lock is held, and puts the echo back. Never waits long: if the terminal
  // takes nothing now (Ctrl-S), the line stays.
  [[nodiscard]] std::unique_lock<std::timed_mutex> EraseForExit();

 private:
  Output& out_;
  const bool live_;
  TerminalEcho* const echo_;
  std::timed_mutex mutex_;  // held while drawing, so for as long as the terminal is stopped
  bool shown_ = false;      // guarded by mutex_
};

}  // namespace baton
