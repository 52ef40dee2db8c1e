// A progress bar for what takes longer than a second.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "cli/terminal.h"

namespace baton {

enum class ProgressUnit { kBytes, kTokens };

// One moment of something long.
struct ProgressMoment {
  std::string what;  // "Loading", "Reading the prompt"
  ProgressUnit unit = ProgressUnit::kTokens;
  int64_t done = 0;
  int64_t total = 0;
  double elapsed_seconds = 0;
  int columns = 80;
};

// The line that shows it: what, bar, share, amount, rate, time left; parts that do not fit are left
// out, the last first. Never longer than columns − 1.
std::string RenderProgress(const ProgressMoment& moment);

// Draws on the status line once a second has passed, ten times a second at most.
// Threads: one.
class Progress {
 public:
  struct Options {
    std::string what;
    ProgressUnit unit = ProgressUnit::kTokens;
    int columns = 80;
  };
  // Time counts from here. Requires: `line` and `clock` outlive the object.
  Progress(StatusLine& line, Clock& clock, Options options);
  // Clears the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Update(int64_t done, int64_t total);
  void Clear();

 private:
  StatusLine& line_;
  Clock& clock_;
  Options options_;
  int64_t start_ns_;
  std::optional<int64_t> drawn_ns_;
};

}  // namespace baton
