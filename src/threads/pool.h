// A pool of threads that share out the tasks of one loop at a time.
//
// Life of one ParallelFor:
//  1. closed: no loop; workers spin for a moment, then sleep.
//  2. open: the caller has published the loop. A worker that wakes up joins; the caller and whoever
//     has joined take tasks, first of their own share, then of the others'.
//  3. closing: no share has a task left. Nobody joins any more; the caller waits for those that
//     joined. A worker that the system never woke up is not waited for, so a busy machine cannot
//     hold up a loop whose tasks are done.
//  4. closed again.
//
// A worker's share is the same part of the tasks in every loop: [w * n / T, (w + 1) * n / T). So
// what it wrote in one loop it mostly finds near in the next, threads rarely take turns at a
// counter, and each reads a part of the weights from one end to the other. Between cores that share
// no cache a line takes five times as long as between others.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"

namespace baton {

// Threads that run the tasks of loops. The caller is one of them, as worker 0.
// Threads: ParallelFor is called by one thread at a time and never from inside a task; either is a
// bug and aborts.
class ThreadPool {
 public:
  static constexpr int kMaxThreads = 1024;
  static constexpr int64_t kMaxTasks = int64_t{1} << 31;  // of a loop

  // Starts num_threads − 1 threads. Errors: invalid (not in 1..kMaxThreads), exhausted (the system
  // refuses another thread).
  static Result<std::unique_ptr<ThreadPool>> Make(int num_threads);

  // Ends the threads. Requires: no loop is running.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Threads that take part in a loop, the caller included.
  int num_threads() const { return num_threads_; }

  // Runs body(task, worker) once for each task of [0, num_tasks) and returns when all are done;
  // what they wrote is then visible to the caller. worker is in [0, num_threads()); two tasks of
  // one worker never overlap. Who runs a task, and when, is left to chance; a worker begins with
  // its share, in ascending order.
  // The body runs in the mode of ScopedFlushDenormals and must not throw.
  // Memory: allocates nothing.
  void ParallelFor(int64_t num_tasks, FunctionRef<void(int64_t task, int worker)> body);

  // From now on tasks are passed over while *cancel is true: their loops end at once, and what they
  // should have written is undefined. Null for never. So whoever computes looks at the flag after
  // the last loop, and before it uses a result.
  // Requires: no loop is running; the flag outlives its use and is not taken back while results
  // depend on it.
  void SetCancel(const std::atomic<bool>* cancel) { cancel_ = cancel; }

 private:
  using Body = FunctionRef<void(int64_t task, int worker)>;

  // state_: the loop's number (32 bits), whether it is open (1), how many workers joined (31).
  static constexpr uint64_t kOpen = uint64_t{1} << 31;
  static constexpr uint64_t kActiveMask = kOpen - 1;
  static constexpr uint64_t kTakenMask = (uint64_t{1} << 32) - 1;

  ThreadPool(int num_threads, int64_t spin_ns);
  Result<> Start();
  void RunWorker(int worker);
  // The next task of a worker's share, or −1 if none is left.
  int64_t TakeFrom(int worker, uint32_t loop, int64_t num_tasks);
  void RunTasks(uint32_t loop, int worker);
  bool IsCancelled() const;
  bool AwaitLoop(uint32_t* loop_seen);
  bool TryJoin(uint32_t loop);
  void Leave();
  void AwaitWorkers();

  // How many tasks of a worker's share were taken, and in which loop (upper 32 bits): what an
  // earlier loop left counts as none, so nobody has to reset the others' lines.
  struct alignas(64) Share {
    std::atomic<uint64_t> taken = 0;
  };

  const int num_threads_;
  const int64_t spin_ns_;
  std::vector<std::thread> threads_;
  std::vector<Share> shares_;  // of each worker

  // The loop. Written by the caller while closed, read by workers that joined.
  const Body* body_ = nullptr;
  int64_t num_tasks_ = 0;
  const std::atomic<bool>* cancel_ = nullptr;
  std::atomic<bool> busy_ = false;

  // On a cache line of its own: every spin reads it.
  alignas(64) std::atomic<uint64_t> state_ = 0;
  std::atomic<bool> stop_ = false;
  std::atomic<int> num_asleep_ = 0;
  std::atomic<bool> caller_asleep_ = false;

  std::mutex mutex_;
  std::condition_variable loop_published_;
  std::condition_variable workers_left_;
};

}  // namespace baton
