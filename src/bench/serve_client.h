// The clients of `baton bench serve`, in the process of the engine: what each saw of its answer,
// and when.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/engine.h"

namespace baton {

// Units: seconds of the steady clock.
double SecondsNow(SteadyClock& clock);

// Tells whoever waits that something happened. Threads: any.
class Bell {
 public:
  void Ring();
  // Waits until `done` holds, looking at each ring, under the mutex.
  template <typename Done>
  void Await(const Done& done) {
    std::unique_lock lock(mutex_);
    condition_.wait(lock, done);
  }
  // The same; calls `tell` each time it has waited for `interval` more, not under the mutex.
  template <typename Done, typename Tell>
  void Await(const Done& done, std::chrono::duration<double> interval, const Tell& tell) {
    std::unique_lock lock(mutex_);
    while (!condition_.wait_for(lock, interval, done)) {
      lock.unlock();
      tell();
      lock.lock();
    }
  }
  std::mutex& mutex() { return mutex_; }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
};

// What one request saw. Written on the engine's thread under the bell's mutex.
class ServeClient final : public RequestObserver {
 public:
  // `num_done` counts the answers of all that share it. Requires: both outlive the engine's hold.
  ServeClient(Bell& bell, int64_t& num_done, double submitted)
      : bell_(bell), num_done_(num_done), submitted_(submitted) {}

  void OnPrefill(int64_t, int64_t) override {}
  void OnToken(const SampledToken&) override;
  void OnText(std::string_view) override {}
  void OnDone(Result<GenerationResult> result) override;

  // Requires, for all: the bell's mutex is held, or the answer is done.
  bool is_done() const { return is_done_; }
  // When each token came, ascending.
  const std::vector<double>& tokens() const { return tokens_; }
  const Result<GenerationResult>& result() const { return result_; }
  // From submission to the first token; 0 if there is none.
  double ttft() const { return tokens_.empty() ? 0 : tokens_.front() - submitted_; }

 private:
  Bell& bell_;
  int64_t& num_done_;  // Requires: the bell's mutex
  SteadyClock clock_;
  double submitted_;
  std::vector<double> tokens_;
  bool is_done_ = false;
  Result<GenerationResult> result_;
};

}  // namespace baton
