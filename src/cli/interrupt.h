// Ctrl-C and SIGTERM, without a signal handler and without a global.
//
// Life of an interrupt:
//  1. SIGINT and SIGTERM are blocked in every thread; one thread waits for them. (A program that
//  was
//     started with one of them ignored leaves it at that, and nothing below happens.)
//  2. outside a scope either ends the program at once, with the terminal in order; SIGTERM as its
//     default action would.
//  3. inside an InterruptScope SIGINT is noted (`requested`), inside a TerminationScope SIGTERM,
//     too, and what runs there stops by itself; a second one that comes before that ends the
//     program as in 2.
//  4. while an InterruptDelay lives, the end of 2 and 3 waits for it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "base/result.h"
#include "cli/terminal.h"

namespace baton {

// The one receiver of SIGINT and SIGTERM.
class Interrupt {
 public:
  // Blocks the signals in the calling thread and starts the thread that waits for them. One that is
  // ignored stays ignored.
  // Requires: no other thread runs yet (they inherit the mask); `status` outlives the object.
  // Errors: internal (the system refuses a descriptor).
  static Result<std::unique_ptr<Interrupt>> Make(StatusLine& status);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // True from a noted interrupt until Clear. Threads: any.
  const std::atomic<bool>& requested() const { return requested_; }

  // A descriptor that is readable while `requested` is true, for poll.
  int wake_fd() const { return wake_fd_; }

  // Notes an interrupt on behalf of the program itself: what runs is to stop. Threads: any.
  void Request();

  // Forgets a noted interrupt.
  void Clear();

 private:
  friend class InterruptScope;
  friend class TerminationScope;
  friend class InterruptDelay;
  explicit Interrupt(StatusLine& status) : status_(status) {}
  void Wait();
  void Note(int signal);
  [[noreturn]] void EndProgram(int signal);

  StatusLine& status_;
  int signal_fd_ = -1;
  int stop_fd_ = -1;
  int wake_fd_ = -1;
  std::mutex mutex_;
  int num_scopes_ = 0;              // guarded by mutex_
  int num_termination_scopes_ = 0;  // guarded by mutex_
  int num_delays_ = 0;              // guarded by mutex_
  int pending_signal_ = 0;          // guarded by mutex_; not 0: ends the program after the delays
  std::atomic<bool> requested_ = false;
  std::thread thread_;
};

// While it lives, Ctrl-C is noted instead of ending the program.
class InterruptScope {
 public:
  explicit InterruptScope(Interrupt& interrupt);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  Interrupt& interrupt_;
};

// While it lives, Ctrl-C and SIGTERM are noted instead of ending the program.
class TerminationScope {
 public:
  explicit TerminationScope(Interrupt& interrupt);
  ~TerminationScope();
  TerminationScope(const TerminationScope&) = delete;
  TerminationScope& operator=(const TerminationScope&) = delete;

 private:
  Interrupt& interrupt_;
};

// While it lives, the program does not end by Ctrl-C: for what must not be left half done. Only
// for what takes moments.
class InterruptDelay {
 public:
  explicit InterruptDelay(Interrupt& interrupt);
  // Ends the program if that is what Ctrl-C meant meanwhile.
  ~InterruptDelay();
  InterruptDelay(const InterruptDelay&) = delete;
  InterruptDelay& operator=(const InterruptDelay&) = delete;

 private:
  Interrupt& interrupt_;
};

}  // namespace baton
