#include "serve/work_thread.h"

#include <utility>

namespace baton {

WorkThread::WorkThread(size_t max_waiting)
    : max_waiting_(max_waiting), thread_([this] { Run(); }) {}

WorkThread::~WorkThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  arrived_.notify_one();
  thread_.join();
}

bool WorkThread::Add(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || tasks_.size() >= max_waiting_) return false;
    tasks_.push_back(std::move(task));
  }
  arrived_.notify_one();
  return true;
}

void WorkThread::Run() {
  while (true) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      arrived_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
      if (stopping_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace baton
