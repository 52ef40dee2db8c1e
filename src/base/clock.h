// Monotonic time, passed in so that a test or a simulation can hold its hands.
#pragma once

#include <chrono>
#include <cstdint>

namespace baton {

// A source of monotonic time.
class Clock {
 public:
  virtual ~Clock() = default;

  // Time since an arbitrary fixed moment; never runs backwards. Units: nanoseconds.
  // Threads: may be called from any.
  virtual int64_t NowNs() = 0;
};

// The machine's own monotonic clock.
class SteadyClock final : public Clock {
 public:
  int64_t NowNs() override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

// A clock that moves only when told to. Threads: one.
class ManualClock final : public Clock {
 public:
  int64_t NowNs() override { return now_ns_; }
  void AdvanceNs(int64_t delta_ns) { now_ns_ += delta_ns; }

 private:
  int64_t now_ns_ = 0;
};

}  // namespace baton
