// Lines of a log, written by a thread of their own: whoever logs never waits.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace baton {

// Threads: any. A reader that is too slow loses lines; how many is told in the next one.
class LineLog {
 public:
  static constexpr size_t kMaxWaitingLines = 10'000;

  // `write` gets whole lines with their end, on the log's thread; it may take its time.
  explicit LineLog(std::function<void(const std::string& lines)> write);
  // Writes what is left.
  ~LineLog();
  LineLog(const LineLog&) = delete;
  LineLog& operator=(const LineLog&) = delete;

  // Takes a line without its end.
  void Add(std::string line);

 private:
  void Run();

  const std::function<void(const std::string& lines)> write_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<std::string> lines_;
  int64_t num_lost_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace baton
