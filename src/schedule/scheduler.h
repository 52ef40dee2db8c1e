// Who is computed in the next step: a state machine on plain data, with no clock, thread or device.
//
// One round: Plan says what a step computes; whoever runs it then calls Commit, gives each sequence
// whose last known token was computed its next one (Push) or ends it (End), and plans again. A step
// that was given up is taken back by Abandon.
//
// The rules are those of docs/scheduling.md: every running decode is in every step; what time is
// left goes to prompts (prefill_policy.h); a sequence is admitted when its prompt and one block
// more have room, and these blocks are then promised to it; when one needs a block beyond its
// promise and there is none, kept sessions go first, cached blocks as they are needed, then a
// younger sequence is preempted (preemption.h). The oldest running sequence always has the promise
// of what it takes until any other one may be preempted, so it advances in every step and ends.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "kv/block_pool.h"
#include "kv/prefix_index.h"
#include "schedule/preemption.h"
#include "schedule/prefill_policy.h"
#include "schedule/schedule_limits.h"
#include "schedule/sequence.h"
#include "schedule/session_store.h"
#include "schedule/step_time_model.h"
#include "step/step_plan.h"

namespace baton {

struct ScheduleCounts {
  uint64_t steps = 0;
  uint64_t admissions = 0;
  uint64_t preemptions = 0;
  uint64_t prefix_queries = 0;
  uint64_t prefix_hit_tokens = 0;
  uint64_t prompt_tokens = 0;  // computed
  uint64_t other_tokens = 0;   // computed: generated ones
};

// Threads: one at a time.
class Scheduler {
 public:
  struct Parts {
    BlockPool& pool;  // outlives the scheduler, and is not moved
    Hash128 kv_key;   // of the model, the policy and the versions that the blocks depend on
    ScheduleLimits limits;
    StepTimeModel time_model;
  };
  // Requires: the limits are valid.
  explicit Scheduler(const Parts& parts);

  // Takes a sequence into the queue. Requires: the prompt is not empty, max_known is above its
  // length and within max_context, the id is new.
  // Errors: invalid (it can never fit: with the numbers), exhausted (the queue is full: with the
  // limit).
  Result<> Submit(SequenceSpec spec);

  // Ends a sequence, waiting or running; no matter if there is none of this id. Its complete blocks
  // stay cached, and all of it if it has a session.
  void End(uint64_t id);

  // Ids of sequences whose deadline has passed, the oldest first. Valid until the next call.
  std::span<const uint64_t> Expired(double now);

  // The next step: empty if nothing can be computed. Valid until the next Plan.
  const StepPlan& Plan();
  // The sequences of the plan, in its order.
  std::span<Sequence* const> planned() const { return planned_; }

  // Notes that the plan was computed and what it took.
  void Commit(double seconds);
  // Notes that it was not: nothing of it counts.
  void Abandon();

  // Learns from a step that was not planned here. Units: seconds.
  void Learn(const StepFeatures& features, double seconds) {
    (void)time_model_.Observe(features, seconds);
  }

  // Goes on from another fit.
  void SetTimeModel(const StepTimeModel& model) { time_model_ = model; }

  // Adds a generated token. Requires: the sequence runs, has no pending token, and is shorter than
  // its max_known.
  void Push(uint64_t id, TokenId token);

  // Blocks that the last Commit gave names, sequence by sequence. Valid until a sequence ends.
  struct Published {
    const Sequence* sequence;
    int64_t first_block;
    int64_t end_block;
  };
  std::span<const Published> published() const { return published_; }

  // A sequence by its id; null if there is none. Valid until it ends.
  const Sequence* Find(uint64_t id) const;

  bool is_idle() const { return running_.empty() && waiting_.empty(); }
  std::span<const std::unique_ptr<Sequence>> running() const { return running_; }
  int64_t num_waiting() const { return static_cast<int64_t>(waiting_.size()); }
  int64_t waiting_tokens() const { return waiting_tokens_; }
  const ScheduleCounts& counts() const { return counts_; }
  const StepTimeModel& time_model() const { return time_model_; }
  PrefixIndex& index() { return index_; }
  SessionStore& sessions() { return sessions_; }
  const SessionStore& sessions() const { return sessions_; }

  // Lets go of kept sessions and cached blocks until so many blocks are free, promises left aside.
  // Returns whether they are.
  bool MakeFree(int64_t num_blocks);

  // Blocks that are free or cached, and promised to nobody.
  int64_t UnpromisedBlocks() const { return AvailableBlocks() - OutstandingBlocks(); }

  // Compares pool, index, tables and promises. Errors: internal.
  Result<> CheckIntegrity() const;

 private:
  // The highest priority first, then the oldest.
  using QueueKey = std::pair<int64_t, uint64_t>;
  using Queue = std::map<QueueKey, std::unique_ptr<Sequence>>;
  enum class Admission { kDone, kNoRoom, kNotYet };
  // What a sequence finds in the cache.
  struct Hit {
    std::span<const BlockId> blocks;
    bool is_session = false;
    int64_t tokens = 0;
  };

  static QueueKey KeyOf(const Sequence& sequence);

  // scheduler_admission.cc
  void Admit();
  bool AdmitOne();
  Admission TryAdmit(Sequence& sequence);
  Hit Look(const Sequence& sequence);
  // Blocks that a sequence needs beyond those that others hold already.
  int64_t BlocksToAdmit(const Sequence& sequence, const Hit& hit) const;
  bool LeavesTimeForStreams(const Sequence& sequence) const;
  bool SharesWithARunningPrefill(const Sequence& sequence, int64_t hit_tokens) const;
  void Start(Queue::iterator waiting, const Hit& hit);
  Queue::iterator Oldest();

  // scheduler_plan.cc
  void RenewTheOldestsPromise();
  int64_t BlocksOfTheOldest(const Sequence& oldest, const Sequence* newcomer) const;
  int64_t StepsUntilItMayBePreempted(const Sequence& sequence) const;
  void PlanDecodes();
  void PlanPrefills();
  double GapSeconds(const StepFeatures& streams) const;
  static bool HasRoomForOne(const Sequence& sequence);
  bool MakeRoomForOne(Sequence& sequence);
  void AddStep(Sequence& sequence, int64_t num_tokens, Phase phase);
  static void AskForLogits(const Sequence& sequence, SequenceStep& step);
  double PromptLogitSeconds() const;
  void LearnFromStep(double seconds);
  bool PreemptOne();
  void Preempt(size_t running_index);
  int64_t AvailableBlocks() const;
  int64_t OutstandingBlocks() const;
  std::unique_ptr<Sequence> TakeFromRunning(size_t index);

  BlockPool* pool_;
  ScheduleLimits limits_;
  StepTimeModel time_model_;
  PrefixIndex index_;
  SessionStore sessions_;
  Queue waiting_;
  int64_t waiting_tokens_ = 0;
  double next_deadline_;
  std::vector<std::unique_ptr<Sequence>> running_;  // the oldest first
  std::vector<int32_t> free_slots_;
  std::unordered_map<uint64_t, Sequence*> by_id_;
  uint64_t next_order_ = 0;
  bool look_at_queue_ = false;  // something changed that may let one be admitted

  StepPlan plan_;
  StepFeatures features_;  // of the plan
  std::optional<double> prompt_logit_seconds_;
  std::vector<Sequence*> planned_;   // of the plan
  std::vector<SequenceStep> spare_;  // kept for their memory
  std::vector<PrefillCandidate> candidates_;
  std::vector<Sequence*> decoding_;
  std::vector<Sequence*> prefilling_;
  std::vector<int64_t> chunks_;
  std::vector<PreemptionCandidate> victims_;
  std::vector<Published> published_;
  std::vector<uint64_t> expired_;
  ScheduleCounts counts_;
};

}  // namespace baton
