// Tests only: a scheduler driven step by step on a virtual clock, every step checked.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "schedule/scheduler.h"
#include "schedule/test_executor.h"

namespace baton {

// Runs rounds of a scheduler with the executor that knows each block's content, and notes what the
// contract speaks of. Tokens of answers are a function of what is before them, so equal requests
// have equal answers.
class CheckedScheduler {
 public:
  CheckedScheduler(int32_t num_blocks, const ScheduleLimits& limits, const StepTimeModel& model)
      : pool_(TestExecutor::MakePool(num_blocks)),
        limits_(limits),
        scheduler_(Scheduler::Parts{
            .pool = pool_, .kv_key = {.low = 7, .high = 7}, .limits = limits, .time_model = model}),
        executor_(pool_),
        truth_(model) {}

  Scheduler& scheduler() { return scheduler_; }
  BlockPool& pool() { return pool_; }

  Result<> Submit(SequenceSpec spec) {
    const uint64_t id = spec.id;
    Result<> taken = scheduler_.Submit(std::move(spec));
    if (taken) live_.emplace(id, Seen{});
    return taken;
  }
  void End(uint64_t id) {
    scheduler_.End(id);
    live_.erase(id);
  }
  bool is_live(uint64_t id) const { return live_.contains(id); }
  std::vector<uint64_t> live() const {
    std::vector<uint64_t> ids;
    for (const auto& [id, seen] : live_) ids.push_back(id);
    return ids;
  }

  // Plans, and looks at the plan. Empty: nothing is wrong.
  void Plan() {
    const auto& running = scheduler_.running();
    const uint64_t oldest = running.empty() ? kNobody : running.front()->spec.id;
    std::set<uint64_t> decoding;
    std::map<uint64_t, int64_t> before;  // progress of those that run
    for (const auto& sequence : running) {
      before[sequence->spec.id] = sequence->progress();
      if (sequence->ledger.num_pending() == 1) decoding.insert(sequence->spec.id);
    }
    plan_ = &scheduler_.Plan();
    const Result<> valid =
        Validate(*plan_, {.max_sequences = limits_.max_running,
                          .max_rows = limits_.max_prefill_rows + limits_.max_running - 1,
                          .max_context = limits_.max_context,
                          .vocab_size = kVocabulary,
                          .num_blocks = pool_.num_blocks()});
    ASSERT_TRUE(valid.has_value()) << valid.error().message;
    std::set<uint64_t> planned;
    for (const Sequence* sequence : scheduler_.planned()) planned.insert(sequence->spec.id);
    ASSERT_EQ(planned.empty(), live_.empty()) << "something can always be computed";
    for (const auto& [id, progress] : before) {
      const bool runs = scheduler_.Find(id)->slot >= 0;
      if (!runs) {
        ASSERT_NE(id, oldest) << "S-5: the oldest is never the victim";
        ASSERT_GE(progress, limits_.min_progress_tokens) << "S-5";
      }
      if (id == oldest && decoding.contains(id)) {
        ASSERT_TRUE(planned.contains(id)) << "the oldest";
      }
      if (runs && decoding.contains(id)) {
        ASSERT_TRUE(planned.contains(id)) << "S-1: decode " << id << " is not in the step";
      }
    }
    CheckWaits(planned);
    ASSERT_NO_FATAL_FAILURE(CheckBooks());
  }

  // Computes the plan; each sequence with a new last row gets its token, or ends.
  void Commit() {
    const std::string wrong = executor_.Run(*plan_, scheduler_.planned());
    ASSERT_EQ(wrong, "") << ToString(*plan_);
    std::vector<uint64_t> ids;
    for (const Sequence* sequence : scheduler_.planned()) ids.push_back(sequence->spec.id);
    ++num_steps_;
    scheduler_.Commit(Seconds());
    ASSERT_NO_FATAL_FAILURE(CheckBooks());
    for (const uint64_t id : ids) Push(id);
    ASSERT_NO_FATAL_FAILURE(CheckBooks());
  }
  void Abandon() {
    scheduler_.Abandon();
    ASSERT_NO_FATAL_FAILURE(CheckBooks());
  }
  void Step() {
    ASSERT_NO_FATAL_FAILURE(Plan());
    ASSERT_NO_FATAL_FAILURE(Commit());
  }
  // Until nothing is left.
  void Drain(int64_t most_steps) {
    for (int64_t i = 0; i < most_steps && !live_.empty(); ++i) ASSERT_NO_FATAL_FAILURE(Step());
    ASSERT_TRUE(live_.empty()) << live_.size() << " are left, first " << live_.begin()->first;
  }

  // M-3, with what sessions keep let go of.
  void CheckIdle() {
    ASSERT_TRUE(scheduler_.is_idle());
    ASSERT_EQ(scheduler_.waiting_tokens(), 0);
    while (scheduler_.sessions().DropOldestBut(0)) {
    }
    ASSERT_EQ(pool_.num_free() + pool_.num_cached(), pool_.num_blocks());
    ASSERT_NO_FATAL_FAILURE(CheckBooks());
  }

  int64_t num_steps() const { return num_steps_; }
  // Steps in a row in which a running prefill stood still, at most.
  int32_t longest_wait() const { return longest_wait_; }
  // What was answered, by id; those that ended at their max_known.
  const std::map<uint64_t, std::vector<TokenId>>& answers() const { return answers_; }

 private:
  static constexpr uint64_t kNobody = ~uint64_t{0};
  static constexpr int64_t kVocabulary = 1000;
  struct Seen {
    int32_t waited = 0;
  };

  // What the model given foretells, so that it stays as it is; something, if it knows nothing.
  double Seconds() const {
    StepFeatures features;
    for (const SequenceStep& step : plan_->sequences) {
      if (step.phase == Phase::kDecode) {
        features.AddDecode(step.first_position);
      } else {
        features.AddPrefill(step.num_rows(), step.first_position);
      }
    }
    return std::max(truth_.Predict(features), 1e-4);
  }

  void CheckBooks() {
    const Result<> books = scheduler_.CheckIntegrity();
    ASSERT_TRUE(books.has_value()) << books.error().message;
    int64_t tokens = 0;
    int64_t waiting = 0;
    for (const auto& [id, seen] : live_) {
      const Sequence* sequence = scheduler_.Find(id);
      ASSERT_NE(sequence, nullptr);
      if (sequence->slot >= 0) continue;
      ++waiting;
      tokens += sequence->ledger.num_known();
      ASSERT_EQ(sequence->table.blocks().size(), 0u);
    }
    ASSERT_EQ(scheduler_.num_waiting(), waiting);
    ASSERT_EQ(scheduler_.waiting_tokens(), tokens);
  }

  void CheckWaits(const std::set<uint64_t>& planned) {
    for (auto& [id, seen] : live_) {
      const Sequence* sequence = scheduler_.Find(id);
      const bool waits = sequence->slot >= 0 && !planned.contains(id);
      seen.waited = waits ? sequence->waited + 1 : 0;
      longest_wait_ = std::max(longest_wait_, seen.waited);
    }
  }

  void Push(uint64_t id) {
    const Sequence* sequence = scheduler_.Find(id);
    if (sequence->ledger.num_pending() > 0) return;
    uint64_t content = TestExecutor::First(sequence->spec.salt);
    for (const TokenId token : sequence->ledger.known) {
      content = TestExecutor::Next(content, token);
    }
    const auto token = static_cast<TokenId>(content % kVocabulary);
    if (sequence->ledger.num_known() + 1 >= sequence->spec.max_known) {
      std::vector<TokenId> all = sequence->ledger.known;
      all.push_back(token);
      answers_[id] = std::move(all);
      return End(id);
    }
    scheduler_.Push(id, token);
  }

  BlockPool pool_;
  ScheduleLimits limits_;
  Scheduler scheduler_;
  TestExecutor executor_;
  StepTimeModel truth_;
  const StepPlan* plan_ = nullptr;
  std::map<uint64_t, Seen> live_;
  std::map<uint64_t, std::vector<TokenId>> answers_;
  int64_t num_steps_ = 0;
  int32_t longest_wait_ = 0;
};

}  // namespace baton
