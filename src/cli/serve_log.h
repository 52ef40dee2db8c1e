// Where the server's log goes: to a reader who may be slow, or who has stopped reading.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <string>

#include "base/clock.h"
#include "cli/output.h"

namespace baton {

// Waits for its reader while the server runs, and only a moment longer: a pipe that nobody empties
// must not keep a program from ending.
class ServeLog {
 public:
  static constexpr int64_t kGraceMs = 2'000;

  // Requires: both outlive it.
  ServeLog(Output& out, Clock& clock) : out_(out), clock_(clock) {}

  // Threads: one at a time. What cannot be written is lost.
  void Write(const std::string& lines);
  // From now on a reader has so long as kGraceMs for all that is left. Threads: any.
  void EndSoon();

 private:
  Output& out_;
  Clock& clock_;
  std::atomic<int64_t> end_ns_ = std::numeric_limits<int64_t>::max();
};

}  // namespace baton
