#include "threads/pool.h"

#include <fmt/format.h>

#include <chrono>
#include <system_error>

#include "base/check.h"
#include "threads/cpu_topology.h"
#include "threads/flush_denormals.h"

namespace baton {
namespace {

// A wake-up by the kernel costs about as much as this; stages of a layer follow each other faster.
constexpr int64_t kSpinNs = 50'000;
constexpr int kPausesPerClockRead = 32;

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until done() or until spin_ns have passed; returns done().
template <typename Done>
bool SpinUntil(int64_t spin_ns, const Done& done) {
  if (done()) return true;
  if (spin_ns == 0) return false;
  const int64_t end_ns = NowNs() + spin_ns;
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      if (done()) return true;
      Pause();
    }
  } while (NowNs() < end_ns);
  return done();
}

uint32_t LoopOf(uint64_t state) {
  return static_cast<uint32_t>(state >> 32);
}

}  // namespace

Result<std::unique_ptr<ThreadPool>> ThreadPool::Make(int num_threads) {
  if (num_threads < 1 || num_threads > kMaxThreads) {
    return Fail(ErrorCode::kInvalid, fmt::format("the number of threads must be in 1..{}, got {}",
                                                 kMaxThreads, num_threads));
  }
  // With more threads than CPUs a spinning thread keeps a working one from running.
  const bool oversubscribed = num_threads > ReadCpuTopology().num_usable();
  std::unique_ptr<ThreadPool> pool(new ThreadPool(num_threads, oversubscribed ? 0 : kSpinNs));
  if (auto started = pool->Start(); !started) return Forward(started);
  return pool;
}

ThreadPool::ThreadPool(int num_threads, int64_t spin_ns)
    : num_threads_(num_threads), spin_ns_(spin_ns), shares_(static_cast<size_t>(num_threads)) {}

Result<> ThreadPool::Start() {
  threads_.reserve(num_threads_ - 1);
  for (int worker = 1; worker < num_threads_; ++worker) {
    try {
      threads_.emplace_back([this, worker] { RunWorker(worker); });
    } catch (const std::system_error& error) {
      return Fail(ErrorCode::kExhausted,
                  fmt::format("cannot start thread {} of {}: {}; ask for fewer threads", worker + 1,
                              num_threads_, error.what()));
    }
  }
  return {};
}

ThreadPool::~ThreadPool() {
  CHECK(!busy_.load());
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_.store(true);
  }
  loop_published_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::ParallelFor(int64_t num_tasks, Body body) {
  CHECK_GE(num_tasks, 0);
  CHECK_LE(num_tasks, kMaxTasks);
  // Also the guard against a loop inside a task.
  CHECK(!busy_.exchange(true, std::memory_order_acquire));
  ScopedFlushDenormals flush_denormals;
  if (num_threads_ == 1 || num_tasks <= 1) {
    for (int64_t task = 0; task < num_tasks && !IsCancelled(); ++task) body(task, 0);
    busy_.store(false, std::memory_order_release);
    return;
  }
  body_ = &body;
  num_tasks_ = num_tasks;
  const uint32_t loop = LoopOf(state_.load(std::memory_order_relaxed)) + 1;
  // Sequentially consistent, as is the load below: a worker counts itself asleep and then looks at
  // state_; the caller writes state_ and then looks for sleepers. One of them sees the other.
  state_.store((uint64_t{loop} << 32) | kOpen);
  if (num_asleep_.load() > 0) {
    { std::lock_guard<std::mutex> lock(mutex_); }
    loop_published_.notify_all();
  }
  RunTasks(loop, 0);
  AwaitWorkers();
  body_ = nullptr;
  busy_.store(false, std::memory_order_release);
}

bool ThreadPool::IsCancelled() const {
  return cancel_ != nullptr && cancel_->load(std::memory_order_relaxed);
}

int64_t ThreadPool::TakeFrom(int worker, uint32_t loop, int64_t num_tasks) {
  const int64_t first = num_tasks * worker / num_threads_;
  const uint64_t count = static_cast<uint64_t>(num_tasks * (worker + 1) / num_threads_ - first);
  std::atomic<uint64_t>& taken = shares_[static_cast<size_t>(worker)].taken;
  uint64_t seen = taken.load(std::memory_order_relaxed);
  for (;;) {
    const uint64_t before = LoopOf(seen) == loop ? seen & kTakenMask : 0;
    if (before >= count) return -1;
    const uint64_t after = (uint64_t{loop} << 32) | (before + 1);
    if (taken.compare_exchange_weak(seen, after, std::memory_order_relaxed)) {
      return first + static_cast<int64_t>(before);
    }
  }
}

void ThreadPool::RunTasks(uint32_t loop, int worker) {
  const Body& body = *body_;
  const int64_t num_tasks = num_tasks_;
  for (int i = 0; i < num_threads_; ++i) {
    const int of = worker + i < num_threads_ ? worker + i : worker + i - num_threads_;
    for (;;) {
      const int64_t task = TakeFrom(of, loop, num_tasks);
      if (task < 0) break;
      if (IsCancelled()) return;
      body(task, worker);
    }
  }
}

void ThreadPool::RunWorker(int worker) {
  ScopedFlushDenormals flush_denormals;
  uint32_t loop_seen = 0;
  while (AwaitLoop(&loop_seen)) {
    if (!TryJoin(loop_seen)) continue;
    RunTasks(loop_seen, worker);
    Leave();
  }
}

// Waits for a loop newer than *loop_seen and notes its number. Returns false when the pool ends.
bool ThreadPool::AwaitLoop(uint32_t* loop_seen) {
  const auto wanted = [&] { return LoopOf(state_.load()) != *loop_seen || stop_.load(); };
  if (!SpinUntil(spin_ns_, wanted)) {
    std::unique_lock<std::mutex> lock(mutex_);
    num_asleep_.fetch_add(1);
    loop_published_.wait(lock, wanted);
    num_asleep_.fetch_sub(1);
  }
  *loop_seen = LoopOf(state_.load());
  return !stop_.load();
}

// Becomes one of those that the caller waits for, unless the loop is over already.
bool ThreadPool::TryJoin(uint32_t loop) {
  uint64_t state = state_.load();
  while (LoopOf(state) == loop && (state & kOpen) != 0) {
    if (state_.compare_exchange_weak(state, state + 1)) return true;
  }
  return false;
}

void ThreadPool::Leave() {
  const uint64_t state = state_.fetch_sub(1) - 1;
  const bool last_of_closed_loop = (state & (kOpen | kActiveMask)) == 0;
  if (last_of_closed_loop && caller_asleep_.load()) {
    { std::lock_guard<std::mutex> lock(mutex_); }
    workers_left_.notify_one();
  }
}

void ThreadPool::AwaitWorkers() {
  state_.fetch_and(~kOpen);
  const auto all_left = [&] { return (state_.load() & kActiveMask) == 0; };
  if (SpinUntil(spin_ns_, all_left)) return;
  std::unique_lock<std::mutex> lock(mutex_);
  caller_asleep_.store(true);
  workers_left_.wait(lock, all_left);
  caller_asleep_.store(false);
}

}  // namespace baton
