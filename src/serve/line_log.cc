#include "serve/line_log.h"

#include <fmt/format.h>

#include <utility>

namespace baton {

LineLog::LineLog(std::function<void(const std::string& lines)> write)
    : write_(std::move(write)), thread_([this] { Run(); }) {}

LineLog::~LineLog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  arrived_.notify_one();
  thread_.join();
}

void LineLog::Add(std::string line) {
  {
    const std::lock_guard lock(mutex_);
    if (lines_.size() >= kMaxWaitingLines) {
      ++num_lost_;
      return;
    }
    lines_.push_back(std::move(line));
  }
  arrived_.notify_one();
}

void LineLog::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    arrived_.wait(lock, [&] { return stopping_ || !lines_.empty(); });
    if (lines_.empty()) return;
    const std::vector<std::string> lines = std::exchange(lines_, {});
    const int64_t num_lost = std::exchange(num_lost_, 0);
    lock.unlock();
    std::string text;
    for (const std::string& line : lines) text += line + '\n';
    if (num_lost > 0) text += fmt::format("{{\"event\":\"lines_lost\",\"count\":{}}}\n", num_lost);
    write_(text);
    lock.lock();
  }
}

}  // namespace baton
