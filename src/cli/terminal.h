// The terminal behind a descriptor, and the one line of it that comes and goes.
#pragma once

#include <mutex>
#include <string_view>

#include "cli/output.h"

namespace baton {

// Whether the descriptor is a terminal that understands a carriage return and "erase to the end of
// the line". `term` is the value of TERM, empty if unset.
bool IsLiveTerminal(int fd, std::string_view term);

// Columns of the terminal behind the descriptor; 80 if it does not say.
int TerminalColumns(int fd);

// A line at the foot of the terminal that is rewritten in place and leaves no trace.
// Threads: one, that of `out`; EraseForExit any.
class StatusLine {
 public:
  // Nothing is ever drawn unless `live`. Requires: `out` outlives the line.
  StatusLine(Output& out, bool live) : out_(out), live_(live) {}

  bool live() const { return live_; }

  // Replaces the line by `text`, which must fit the terminal's width and hold no control bytes.
  void Draw(std::string_view text);

  // Takes the line away, if one is shown.
  void Clear();

  // Takes the line away on behalf of a program that is about to end, and keeps it away while the
  // returned lock is held. Never waits long: if the terminal takes nothing now (Ctrl-S), the line
  // stays.
  [[nodiscard]] std::unique_lock<std::timed_mutex> EraseForExit();

 private:
  Output& out_;
  const bool live_;
  std::timed_mutex mutex_;  // held while drawing, so for as long as the terminal is stopped
  bool shown_ = false;      // guarded by mutex_
};

}  // namespace baton
