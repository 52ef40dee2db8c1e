#include "threads/pool.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cfenv>
#include <cstdlib>
#include <limits>
#include <vector>

#include "base/test_allocation_count.h"
#include "threads/flush_denormals.h"

namespace baton {
namespace {

std::unique_ptr<ThreadPool> MakePool(int num_threads) {
  auto pool = ThreadPool::Make(num_threads);
  if (!pool) {
    ADD_FAILURE() << pool.error().message;
    std::abort();
  }
  return std::move(*pool);
}

TEST(ThreadPool, RefusesImpossibleNumbers) {
  for (const int count : {0, -1, ThreadPool::kMaxThreads + 1}) {
    const auto pool = ThreadPool::Make(count);
    ASSERT_FALSE(pool.has_value());
    EXPECT_EQ(pool.error().code, ErrorCode::kInvalid);
    EXPECT_NE(pool.error().message.find(std::to_string(count)), std::string::npos);
  }
}

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (int num_threads = 1; num_threads <= 8; ++num_threads) {
    const auto pool = MakePool(num_threads);
    EXPECT_EQ(pool->num_threads(), num_threads);
    for (const int64_t num_tasks : {0, 1, 2, 3, 7, 8, 9, 100, 1000}) {
      std::vector<int> runs(num_tasks, 0);
      std::vector<int64_t> runs_of_worker(num_threads, 0);
      pool->ParallelFor(num_tasks, [&](int64_t task, int worker) {
        ++runs[task];
        ++runs_of_worker[worker];  // a race here would mean two tasks of one worker at once
      });
      EXPECT_EQ(runs, std::vector<int>(num_tasks, 1));
      int64_t sum = 0;
      for (const int64_t count : runs_of_worker) sum += count;
      EXPECT_EQ(sum, num_tasks);
    }
  }
}

// Many short loops: those who come late, those who sleep and those who spin must all be right.
TEST(ThreadPool, SurvivesManyShortLoops) {
  for (int num_threads = 2; num_threads <= 8; num_threads += 2) {
    const auto pool = MakePool(num_threads);
    std::vector<int64_t> values(16, 0);
    int64_t expected = 0;
    for (int loop = 0; loop < 3000; ++loop) {
      const int64_t num_tasks = loop % 17;
      pool->ParallelFor(num_tasks, [&](int64_t task, int) { values[task % 16] += loop; });
      expected += num_tasks * loop;
      if (loop % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    int64_t sum = 0;
    for (const int64_t value : values) sum += value;
    EXPECT_EQ(sum, expected);
  }
}

TEST(ThreadPool, IsRightBesideAHog) {
  std::atomic<bool> stop = false;
  std::vector<std::thread> hogs;
  for (int i = 0; i < 3; ++i) {
    hogs.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
      }
    });
  }
  const auto pool = MakePool(4);
  std::vector<int64_t> squares(64);
  for (int loop = 0; loop < 200; ++loop) {
    squares.assign(64, -1);
    pool->ParallelFor(64, [&](int64_t task, int) { squares[task] = task * task; });
    for (int64_t i = 0; i < 64; ++i) ASSERT_EQ(squares[i], i * i);
  }
  stop = true;
  for (std::thread& hog : hogs) hog.join();
}

TEST(ThreadPool, PoolsThatNeverRanEndAtOnce) {
  for (int i = 0; i < 100; ++i) MakePool(4);
}

TEST(ThreadPool, AllThreadsTakePartInLongTasks) {
  const auto pool = MakePool(3);
  std::atomic<int> arrived = 0;
  // Each task waits for the other two, so that one thread cannot run them all.
  pool->ParallelFor(3, [&](int64_t, int) {
    arrived.fetch_add(1);
    while (arrived.load() < 3) std::this_thread::yield();
  });
  EXPECT_EQ(arrived.load(), 3);
}

// Each begins with its own part, whatever the loop before was.
TEST(ThreadPool, WorkersBeginWithTheirShares) {
  const auto pool = MakePool(3);
  for (const int64_t num_tasks : {30, 7, 3, 31}) {
    std::atomic<int> arrived = 0;
    std::array<std::atomic<int64_t>, 3> first = {-1, -1, -1};
    pool->ParallelFor(num_tasks, [&](int64_t task, int worker) {
      if (first[static_cast<size_t>(worker)].load() >= 0) return;
      first[static_cast<size_t>(worker)] = task;
      arrived.fetch_add(1);
      while (arrived.load() < 3) std::this_thread::yield();
    });
    for (int64_t w = 0; w < 3; ++w) {
      EXPECT_EQ(first[static_cast<size_t>(w)].load(), num_tasks * w / 3) << num_tasks << " tasks";
    }
  }
}

TEST(ThreadPool, AllocatesNothingPerLoop) {
  const auto pool = MakePool(4);
  std::atomic<int64_t> sum = 0;
  const auto loop = [&] { pool->ParallelFor(32, [&](int64_t task, int) { sum.fetch_add(task); }); };
  loop();
  const int64_t before = AllocationCount();
  for (int i = 0; i < 100; ++i) loop();
  EXPECT_EQ(AllocationCount(), before);
  EXPECT_EQ(sum.load(), 101 * 31 * 16);
}

// A product too small for a normal number, kept from the compiler.
float TinyProduct() {
  volatile float smallest = std::numeric_limits<float>::min();
  volatile float half = 0.5f;
  return smallest * half;
}

TEST(ThreadPool, FlushesDenormalsInTasksAndRestoresTheCaller) {
  ASSERT_GT(TinyProduct(), 0.0f);
  for (const int num_threads : {1, 4}) {
    const auto pool = MakePool(num_threads);
    std::vector<float> products(64, 1.0f);
    pool->ParallelFor(64, [&](int64_t task, int) { products[task] = TinyProduct(); });
    EXPECT_EQ(products, std::vector<float>(64, 0.0f));
    EXPECT_GT(TinyProduct(), 0.0f);
  }
}

TEST(ThreadPool, TasksRoundToNearestWhateverTheCallerDoes) {
  const auto pool = MakePool(2);
  std::vector<float> sums(8);
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  pool->ParallelFor(8, [&](int64_t task, int) {
    volatile float one = 1.0f;
    volatile float tiny = 1e-10f;
    sums[task] = one + tiny;
  });
  const int mode_after = std::fegetround();
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(mode_after, FE_UPWARD);
  EXPECT_EQ(sums, std::vector<float>(8, 1.0f));
}

TEST(ScopedFlushDenormals, Nests) {
  ASSERT_GT(TinyProduct(), 0.0f);
  {
    ScopedFlushDenormals outer;
    { ScopedFlushDenormals inner; }
    EXPECT_EQ(TinyProduct(), 0.0f);
  }
  EXPECT_GT(TinyProduct(), 0.0f);
}

TEST(ThreadPoolDeathTest, LoopInsideATaskAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto nested = [](int num_threads) {
    const auto pool = MakePool(num_threads);
    pool->ParallelFor(2, [&](int64_t, int) { pool->ParallelFor(1, [](int64_t, int) {}); });
  };
  EXPECT_DEATH(nested(1), "CHECK failed");
  EXPECT_DEATH(nested(2), "CHECK failed");
}

}  // namespace
}  // namespace baton
