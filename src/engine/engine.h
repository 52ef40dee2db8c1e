// The engine: many requests that share the weights, the cache and each step.
//
// One loop: receive → plan → forward → sample → commit → emit. Whoever submits is on other threads;
// they meet the loop in a bounded inbox and in the observers of their requests.
//
// Life of a request:
//  1. submitted: checked at once; refused with a reason, or in the inbox.
//  2. waiting: in the queue of the scheduler, until there is room for its prompt and one block.
//  3. prefill: its prompt is computed in chunks, but for what the cache has.
//  4. decode: one token a step.
//  5. preempted: it lost its blocks to older requests; it is waiting again, and nothing that it has
//     told is told again.
//  6. done: OnDone is called once, whatever happened; its blocks are free or cached.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/engine_config.h"
#include "engine/generation.h"
#include "engine/loaded_model.h"
#include "engine/token_rates.h"
#include "kv/saved_sequence.h"
#include "schedule/step_time_model.h"

namespace baton {

// How the engine is, for metrics and pages. One moment's picture, made when it is asked for.
// Counters only grow.
struct EngineStatus {
  static constexpr size_t kMaxListedWaiting = 100;

  // What one running request does.
  struct Running {
    uint64_t id = 0;
    std::string label;
    int64_t prompt_tokens = 0;
    int64_t cached_tokens = 0;    // of the prompt
    int64_t computed_tokens = 0;  // in the cache now; the step at work counts by layers
    int64_t generated_tokens = 0;
    int64_t blocks = 0;      // in its table; some may be shared with others
    double age_seconds = 0;  // since it was submitted
    bool is_prefill = false;
  };
  // What one request that waits has: some tokens already, if it was preempted.
  struct Waiting {
    uint64_t id = 0;
    std::string label;
    int64_t prompt_tokens = 0;
    int64_t generated_tokens = 0;
    double age_seconds = 0;
  };
  std::vector<Running> running;  // the oldest first
  std::vector<Waiting> waiting;  // the oldest first, at most kMaxListedWaiting
  int64_t max_running = 0;
  int64_t waiting_requests = 0;  // all of them
  int64_t waiting_tokens = 0;    // of their prompts
  TokenRates::PerSecond rates;
  int64_t block_tokens = 0;
  std::string_view kv_type = KvTypeName(KvType::kF16);  // what the cache holds
  int64_t blocks_free = 0;
  int64_t blocks_owned = 0;
  int64_t blocks_cached = 0;
  uint64_t steps = 0;
  uint64_t requests_in_steps = 0;  // for each step the requests in it, summed
  uint64_t prompt_tokens = 0;      // computed
  uint64_t generated_tokens = 0;
  uint64_t prefix_queries = 0;
  uint64_t prefix_hit_tokens = 0;
  uint64_t preemptions = 0;
  int64_t disk_blocks_read = 0;
  int64_t disk_blocks_written = 0;
  int64_t disk_blocks_skipped = 0;  // not stored: too many waited
  int64_t disk_blocks_failed = 0;   // not stored: the disk refused
  uint64_t finished_requests = 0;
  double forward_seconds = 0;   // of all steps
  double sampling_seconds = 0;  // of all steps
  double other_seconds = 0;     // of all steps: receive, plan, commit, emit
};

// Threads: Submit, CheckPrefill, Cancel, Status and Stop from any, observers included; the others
// from one thread at a time, the engine's.
class Engine {
 public:
  // Requires: `model` outlives the engine.
  // Errors: invalid (config), exhausted (blocks or workspace).
  static Result<std::unique_ptr<Engine>> Make(LoadedModel& model, const EngineConfig& config);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  // Ends what is left as cancelled.
  ~Engine();

  const EngineConfig& config() const;
  const LoadedModel& model() const;

  // Takes a request. The observer hears of it on the engine's thread until OnDone and is then let
  // go; if Submit fails it hears nothing.
  // Errors: invalid (empty prompt, unknown id, a value out of range, a prompt that can never fit:
  // with the numbers), exhausted (the queue is full), unavailable (the engine is stopping).
  Result<uint64_t> Submit(GenerationRequest request, std::shared_ptr<RequestObserver> observer);

  // Whether requests may have their prompts read so. Errors: invalid, as Submit's; what the tune
  // file's error is, where the wish needs one.
  Result<> CheckPrefill(const PrefillWish& wish) const;

  // Ends a request as cancelled, with what it has: before the next step, and the step at work is
  // given up if all its requests are cancelled. Unknown and ended ids are no matter.
  void Cancel(uint64_t id);

  // A request is not listed any more when its OnDone is called. May wait while a step is planned or
  // committed, not while it is computed. Not beside Calibrate, Logits and what concerns sessions.
  EngineStatus Status() const;

  // Takes the memory of the whole cache now, on all threads, instead of when it is first used: then
  // no request waits for it, and a machine that has too little shows it at once. Requires: no
  // request has been submitted.
  void TakeCacheMemory();

  // Measures a few steps, so that the first chunks are sized by more than a guess; a second or two.
  // Requires: no request has been submitted. Errors: exhausted.
  Result<> Calibrate();
  // Goes on from a fit of another run instead. Requires: no request has been submitted.
  void SetTimeModel(const StepTimeModel& model);
  // The fit of what steps take (schedule/step_time_model.h). Threads: the engine's.
  const StepTimeModel& time_model() const;

  // Computes one step, if there is anything to compute. `cancel` gives up the step at work, whose
  // requests go on from before it. Returns whether requests are left.
  // Errors: none that belongs to one request; internal if the books do not agree.
  Result<bool> Step(const std::atomic<bool>& cancel);

  // Hears, on a thread of the disk cache's, when blocks begin not to be stored; before Run.
  void OnDiskProblem(std::function<void(const std::string& message)> listener);

  // Steps and sleeps until Stop, then ends what is left as cancelled. While idle it checks that
  // every block is free or cached (contract M-3).
  // Errors: as Step.
  Result<> Run();
  // From now on Submit refuses. With `drain`, Run goes on until no request is left; without, the
  // step at work is given up.
  void Stop(bool drain);

  // Logits at chosen positions of a sequence, from an empty cache: [positions, vocab_size] to
  // `visit`, positions ascending. For evaluation. Requires: no request is left.
  // Errors: invalid, exhausted, cancelled.
  Result<> Logits(const std::vector<TokenId>& tokens, const std::vector<int64_t>& positions,
                  const std::function<void(int64_t position, std::span<const float> logits)>& visit,
                  const std::atomic<bool>& cancel);

  // The sequence that is kept under a session's number: how much of it is cached; to a file; from a
  // file, instead of what was kept; forgotten. Requires: no request of the session is running.
  // Errors: as SaveSequence and SavedSequence; invalid (nothing to save); corrupt (ids outside the
  // vocabulary); exhausted.
  int64_t SessionTokens(uint64_t session) const;
  Result<> SaveSession(uint64_t session, const std::string& path,
                       const SavedSequenceProgress& progress) const;
  Result<> LoadSession(uint64_t session, const std::string& path,
                       const SavedSequenceProgress& progress);
  void DropSession(uint64_t session);

 private:
  class Loop;
  explicit Engine(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace baton
