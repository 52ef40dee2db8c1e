// Where other threads leave what they want of the engine, and its thread finds it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/live_request.h"

namespace baton {

// What may wait, here and behind the inbox.
struct InboxLimits {
  int64_t max_requests = 0;
  int64_t max_tokens = 0;
};

// Threads: Put, Cancel and Stop from any; the rest from the engine's.
class Inbox {
 public:
  explicit Inbox(const InboxLimits& limits) : limits_(limits) {}

  // Errors: exhausted (too much is waiting, with the numbers), unavailable (stopping).
  Result<> Put(std::unique_ptr<LiveRequest> request);
  void Cancel(uint64_t id);
  void Stop(bool drain);

  // What arrived since the last call.
  struct Mail {
    std::vector<std::unique_ptr<LiveRequest>> requests;
    std::vector<uint64_t> cancelled;
  };
  void Take(Mail& mail);
  // Shows the requests that have arrived and are not taken; they are not while `visit` looks.
  // Threads: any.
  void ShowArrived(const std::function<void(std::span<const std::unique_ptr<LiveRequest>>)>& visit);
  // Notes what waits behind the inbox.
  void NoteWaiting(int64_t requests, int64_t tokens);
  // Ends a Wait, now or the next one.
  void Wake();
  // Waits until there is mail, a stop, a Wake, or so many milliseconds have passed.
  void Wait(int64_t timeout_ms);

  bool is_stopping() const { return stopping_.load(std::memory_order_relaxed); }
  bool drains() const { return drains_.load(std::memory_order_relaxed); }

  // The requests of the step that begins now. give_up becomes true once all of them are cancelled,
  // or the engine stops without draining.
  void BeginStep(const std::vector<uint64_t>& ids);
  const std::atomic<bool>& give_up() const { return give_up_; }

 private:
  const InboxLimits limits_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  Mail mail_;
  bool woken_ = false;
  int64_t mail_tokens_ = 0;
  int64_t waiting_requests_ = 0;
  int64_t waiting_tokens_ = 0;
  std::vector<uint64_t> in_step_;  // and not cancelled
  std::atomic<bool> give_up_ = false;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> drains_ = false;
};

}  // namespace baton
