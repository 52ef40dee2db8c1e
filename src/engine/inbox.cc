#include "engine/inbox.h"
#include "base/number_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace baton {

Result<> Inbox::Put(std::unique_ptr<LiveRequest> request) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return Fail(ErrorCode::kUnavailable, "the engine is stopping");
  const int64_t requests = waiting_requests_ + std::ssize(mail_.requests);
  if (requests >= limits_.max_requests) {
    return Fail(ErrorCode::kExhausted,
                fmt::format("the queue is full with {} waiting, which is the limit; try "
                            "again later",
                            CountOf(requests, "request")));
  }
  const int64_t tokens = waiting_tokens_ + mail_tokens_;
  if (tokens + request->num_prompt() > limits_.max_tokens) {
    return Fail(
        ErrorCode::kExhausted,
        fmt::format("the queue is full with {} waiting, and {} more exceed "
                    "the limit of {}; try again later",
                    CountOf(tokens, "prompt token"), request->num_prompt(), limits_.max_tokens));
  }
  mail_tokens_ += request->num_prompt();
  mail_.requests.push_back(std::move(request));
  arrived_.notify_one();
  return {};
}

void Inbox::Cancel(uint64_t id) {
  const std::lock_guard lock(mutex_);
  mail_.cancelled.push_back(id);
  if (std::erase(in_step_, id) > 0 && in_step_.empty()) give_up_ = true;
  arrived_.notify_one();
}

void Inbox::Stop(bool drain) {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  drains_ = drain;
  if (!drain) give_up_ = true;
  arrived_.notify_one();
}

void Inbox::Take(Mail& mail) {
  mail.requests.clear();
  mail.cancelled.clear();
  const std::lock_guard lock(mutex_);
  std::swap(mail, mail_);
  // What was taken waits behind the inbox until NoteWaiting says otherwise.
  waiting_requests_ += std::ssize(mail.requests);
  waiting_tokens_ += std::exchange(mail_tokens_, 0);
}

void Inbox::ShowArrived(
    const std::function<void(std::span<const std::unique_ptr<LiveRequest>>)>& visit) {
  const std::lock_guard lock(mutex_);
  visit(mail_.requests);
}

void Inbox::NoteWaiting(int64_t requests, int64_t tokens) {
  const std::lock_guard lock(mutex_);
  waiting_requests_ = requests;
  waiting_tokens_ = tokens;
}

void Inbox::Wake() {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  arrived_.notify_one();
}

void Inbox::Wait(int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  arrived_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] {
    return stopping_ || woken_ || !mail_.requests.empty() || !mail_.cancelled.empty();
  });
  woken_ = false;
}

void Inbox::BeginStep(const std::vector<uint64_t>& ids) {
  const std::lock_guard lock(mutex_);
  in_step_ = ids;
  for (const uint64_t id : mail_.cancelled) std::erase(in_step_, id);
  give_up_ = (stopping_ && !drains_) || (in_step_.empty() && !ids.empty());
}

}  // namespace baton
