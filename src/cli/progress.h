// A progress bar for what takes longer than a second.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "cli/output.h"
#include "cli/terminal.h"

namespace baton {

enum class ProgressUnit { kBytes, kTokens, kRequests };

// One moment of something long.
struct ProgressMoment {
  std::string what;  // "Loading", "Reading the prompt"
  ProgressUnit unit = ProgressUnit::kTokens;
  int64_t done = 0;
  int64_t total = 0;
  double elapsed_seconds = 0;
  // The rate so far tells the time left, which is this at least: that of arrivals still to come.
  double least_left_seconds = 0;
  int columns = 80;
};

// The line that shows it: what, share, bar, amount, rate, time left. Where not all fits the bar is
// shorter; then rate, amount and bar are left out, in this order, and the time left at last. Never
// longer than columns − 1.
std::string RenderProgress(const ProgressMoment& moment);

// The same without a bar, for what is no terminal.
std::string ProgressLine(const ProgressMoment& moment);

// Draws on the status line once a second has passed, ten times a second at most. Without a live
// status line work of minutes can write lines instead: one after ten seconds, then every 30.
// Threads: one.
class Progress {
 public:
  struct Options {
    std::string what;
    ProgressUnit unit = ProgressUnit::kTokens;
    int columns = 80;
    Output* lines = nullptr;  // null: no lines
  };
  // Time counts from here. Requires: `line`, `clock` and `lines` outlive the object.
  Progress(StatusLine& line, Clock& clock, Options options);
  // Clears the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Update(int64_t done, int64_t total);
  // Where more than the work so far says how long it will take.
  void UpdateWithLeast(int64_t done, int64_t total, double least_left_seconds);
  void Clear();

 private:
  void WriteLine(int64_t now_ns, const ProgressMoment& moment);

  StatusLine& line_;
  Clock& clock_;
  Options options_;
  int64_t start_ns_;
  std::optional<int64_t> drawn_ns_;
  int64_t next_line_ns_;
};

}  // namespace baton
