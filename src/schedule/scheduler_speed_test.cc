// What a long queue costs: a step with 16 running sequences and 1,000 waiting ones against the same
// without a queue, at most 1 µs for each that waits, whatever it waits for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "schedule/scheduler.h"
#include "schedule/test_executor.h"

namespace baton {
namespace {

constexpr int64_t kContext = 8192;
constexpr int64_t kPrompt = 3000;
constexpr int64_t kTail = 4000;    // behind it, of whoever waits for room
constexpr int64_t kRoomLeft = 44;  // blocks: less than a tail needs, more than the streams do
constexpr int kStreams = 15;
constexpr int kNumWaiting = 1000;
constexpr int kSteps = 100;
constexpr int kRounds = 7;

StepTimeModel Fitted() {
  StepTimeModel model;
  for (int i = 1; i < 200; ++i) {
    StepFeatures features;
    features.AddPrefill(1 + i * 37 % 500, i * 53 % 700);
    for (int row = 0; row < i % 5; ++row) features.AddDecode(1 + i * 11 % 800);
    model.Observe(features, 1e-4 * features.prefill_tokens + 1e-3 * features.decode_rows);
  }
  return model;
}

// What the waiting ones wait for.
struct Queue {
  int32_t max_running = 16;
  bool has_room = true;
  // The kind of their first tokens: the streams', whose prefix is in the cache; that of the prompt
  // that is being read; or one of each one's own (−1).
  TokenId kind = -1;
};
constexpr TokenId kStreamKind = 1;
constexpr TokenId kReadKind = 2;

class Load {
 public:
  Load(const Queue& queue, int num_waiting)
      : pool_(TestExecutor::MakePool(20'000)),
        scheduler_({.pool = pool_,
                    .kv_key = {},
                    .limits = {.max_running = queue.max_running,
                               .max_context = kContext,
                               .max_prefill_rows = 16,
                               .max_queue_requests = kNumWaiting + 100,
                               .max_queue_tokens = int64_t{1} << 40,
                               .long_prompt_tokens = kContext,
                               .max_long_prefills = 2},
                    .time_model = Fitted()}) {
    for (int i = 0; i < kStreams; ++i) Submit(kStreamKind, kPrompt, 1);
    for (int i = 0; i < 400; ++i) Step();
    // One that is being read, so that each step may let somebody in.
    scheduler_.SetTimeModel(Fitted());
    Submit(kReadKind, kContext - 500, 1);
    Step();
    if (!queue.has_room) {
      const int64_t taken = scheduler_.UnpromisedBlocks() - kRoomLeft;
      EXPECT_TRUE(scheduler_.MakeFree(taken));
      others_.emplace(pool_, taken * kBlockTokens);
      EXPECT_TRUE(others_->Reserve(taken * kBlockTokens).has_value());
    }
    for (int i = 0; i < num_waiting; ++i) {
      Submit(queue.kind < 0 ? static_cast<TokenId>(100 + i) : queue.kind, kPrompt,
             queue.has_room ? 1 : kTail);
    }
  }

  // Seconds of a step, the mean of some.
  double Measure() {
    SteadyClock clock;
    const int64_t begin = clock.NowNs();
    for (int i = 0; i < kSteps; ++i) Step();
    return static_cast<double>(clock.NowNs() - begin) * 1e-9 / kSteps;
  }
  int64_t num_running() const { return std::ssize(scheduler_.running()); }
  int64_t num_waiting() const { return scheduler_.num_waiting(); }
  bool reads() const {
    return std::ranges::any_of(scheduler_.running(),
                               [](const auto& sequence) { return sequence->is_prefill(); });
  }

 private:
  // Tokens of a kind, then as many as `own` that no other one has.
  void Submit(TokenId kind, int64_t count, int64_t own) {
    SequenceSpec spec;
    spec.id = ++last_id_;
    spec.prompt.assign(static_cast<size_t>(count), kind);
    spec.prompt.resize(static_cast<size_t>(count + own), static_cast<TokenId>(1000 + last_id_));
    spec.max_known = kContext;
    ASSERT_TRUE(scheduler_.Submit(std::move(spec)).has_value());
  }
  void Step() {
    (void)scheduler_.Plan();
    ids_.clear();
    for (const Sequence* sequence : scheduler_.planned()) ids_.push_back(sequence->spec.id);
    // No matter what it took: so the fit stays, and with it the size of chunks.
    scheduler_.Commit(0.0);
    for (const uint64_t id : ids_) {
      if (scheduler_.Find(id)->ledger.num_pending() == 0) scheduler_.Push(id, 5);
    }
  }

  BlockPool pool_;
  Scheduler scheduler_;
  std::optional<BlockTable> others_;  // blocks that nobody can have
  std::vector<uint64_t> ids_;
  uint64_t last_id_ = 0;
};

// Microseconds that each waiting sequence adds to a step: the least of several rounds, since
// whatever else the machine does only adds.
double MicrosecondsEach(const Queue& queue) {
  double without = std::numeric_limits<double>::infinity();
  double with = without;
  for (int round = 0; round < kRounds; ++round) {
    Load empty(queue, 0);
    Load full(queue, kNumWaiting);
    EXPECT_EQ(empty.num_running(), kStreams + 1);
    EXPECT_EQ(full.num_running(), kStreams + 1);
    without = std::min(without, empty.Measure());
    with = std::min(with, full.Measure());
    // It was what it is meant to be, to the end.
    EXPECT_EQ(full.num_running(), kStreams + 1);
    EXPECT_EQ(full.num_waiting(), kNumWaiting);
    EXPECT_TRUE(full.reads());
  }
  const double each = (with - without) * 1e6 / kNumWaiting;
  std::printf("a step takes %.1f us, and %.4f us more for each that waits\n", without * 1e6, each);
  return each;
}

TEST(SchedulerSpeed, AThousandThatWaitForAPlace) {
  EXPECT_LE(MicrosecondsEach({.max_running = kStreams + 1}), 1.0);
}

TEST(SchedulerSpeed, AThousandThatWaitForRoom) {
  EXPECT_LE(MicrosecondsEach({.max_running = 64, .has_room = false}), 1.0);
}

TEST(SchedulerSpeed, AThousandWithAPrefixInTheCacheThatWaitForRoom) {
  EXPECT_LE(MicrosecondsEach({.max_running = 64, .has_room = false, .kind = kStreamKind}), 1.0);
}

TEST(SchedulerSpeed, AThousandThatWaitForWhatIsBeingRead) {
  EXPECT_LE(MicrosecondsEach({.max_running = 64, .kind = kReadKind}), 1.0);
}

}  // namespace
}  // namespace baton
