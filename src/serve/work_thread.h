// One thread that does what would hold up the I/O thread, one thing after the other.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace baton {

// Threads: any.
class WorkThread {
 public:
  // So many tasks may wait.
  explicit WorkThread(size_t max_waiting);
  // Ends the task at work; those that wait are dropped.
  ~WorkThread();
  WorkThread(const WorkThread&) = delete;
  WorkThread& operator=(const WorkThread&) = delete;

  // Whether there was room.
  [[nodiscard]] bool Add(std::function<void()> task);

 private:
  void Run();

  const size_t max_waiting_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace baton
