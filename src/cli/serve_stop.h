// How a server stops: SIGTERM or Ctrl-C lets it finish what runs, up to a deadline; a second one
// ends the program at once (cli/interrupt.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "base/result.h"
#include "cli/console.h"

namespace baton {

// Waits for the signal on a thread of its own.
class ServeStop {
 public:
  struct Actions {
    std::function<void()> drain;  // take nothing new, end what runs
    std::function<void()> stop;   // give up what still runs
  };
  // Until SetActions the signal ends the program with status 0: nothing was promised yet.
  // Requires: a TerminationScope of the console's interrupt lives as long.
  ServeStop(Console& console, int64_t drain_seconds);
  // Waits for no signal any more.
  ~ServeStop();
  ServeStop(const ServeStop&) = delete;
  ServeStop& operator=(const ServeStop&) = delete;

  void SetActions(Actions actions);

 private:
  void Run();
  // Whether the object is going; waits up to so long, -1 for ever, or for the signal if wanted.
  bool WaitForEnd(int64_t timeout_ms, bool or_signal) const;

  Console& console_;
  const int64_t drain_seconds_;
  int end_fd_ = -1;
  std::mutex mutex_;
  Actions actions_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace baton
