// The engine's own side: what only its thread touches.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "engine/disk_cache.h"
#include "engine/engine.h"
#include "engine/inbox.h"
#include "engine/live_request.h"
#include "engine/row_sampler.h"
#include "engine/token_rates.h"
#include "forward/step_forward.h"
#include "kv/block_pool.h"
#include "schedule/scheduler.h"

namespace baton {

// Not movable: the scheduler's tables hold the pool's address.
class Engine::Loop : private StepProgress {
 public:
  // Errors: as Engine::Make.
  static Result<std::unique_ptr<Loop>> Make(LoadedModel& model, const EngineConfig& config);

  Result<uint64_t> Submit(GenerationRequest request, std::shared_ptr<RequestObserver> observer);
  // As PolicyOfPrompt, and with a bound to the memory that it takes. Threads: any.
  Result<std::optional<SparsePolicy>> PolicyFor(const PrefillWish& wish, int64_t num_tokens) const;
  Result<bool> Step(const std::atomic<bool>& cancel);
  Result<> Run();
  void TakeCacheMemory();
  Result<> Calibrate();
  // Ends all that is left as cancelled.
  void EndAll();
  EngineStatus Status();  // engine_status.cc
  Result<> Logits(const std::vector<TokenId>& tokens, const std::vector<int64_t>& positions,
                  const std::function<void(int64_t position, std::span<const float> logits)>& visit,
                  const std::atomic<bool>& cancel);
  Result<> SaveSession(uint64_t session, const std::string& path,
                       const SavedSequenceProgress& progress) const;
  Result<> LoadSession(uint64_t session, const std::string& path,
                       const SavedSequenceProgress& progress);

  void OnDiskProblem(std::function<void(const std::string& message)> listener) {
    if (disk_ != nullptr) disk_->OnProblem(std::move(listener));
  }
  Inbox& inbox() { return inbox_; }
  void SetTimeModel(const StepTimeModel& model) { scheduler_.SetTimeModel(model); }
  const StepTimeModel& time_model() const { return scheduler_.time_model(); }
  SessionStore& sessions() { return scheduler_.sessions(); }
  LoadedModel& model() { return *model_; }
  const EngineConfig& config() const { return config_; }

 private:
  // A row of the step at work that yields a token.
  struct Choice {
    LiveRequest* request = nullptr;
    std::optional<Result<SampledToken>> token;
    std::optional<Error> failure;  // of a token of its prompt
  };

  Loop(LoadedModel& model, const EngineConfig& config, BlockPool pool);
  Result<StopRules> RulesFor(const GenerationRequest& request) const;
  Result<> CheckIds(const std::vector<TokenId>& tokens) const;
  void Receive();
  void Admit(std::unique_ptr<LiveRequest> request);
  void Queue(LiveRequest& live);
  static Hash128 SaltOf(const LiveRequest& live);
  bool AwaitDisk(const LiveRequest& live);
  void ReceiveFromDisk();
  bool TakeIn(const LiveRequest& live, const DiskCache::Loaded& slice);
  void StoreOnDisk();
  void End(uint64_t id, StopReason reason);
  void EndWith(uint64_t id, const Error& error);
  void BeginStep();
  void Sample(const StepPlan& plan, std::span<const RowLogits> rows);
  void Emit();
  void OnLayerDone(int layers_done, int num_layers) override;
  void NoteWaiting();
  TokenRates::Tokens Computed() const {
    return {.prompt = scheduler_.counts().prompt_tokens, .generated = generated_tokens_};
  }
  uint64_t UnfinishedPromptTokens() const;
  void ListRunning(EngineStatus& status, int64_t now_ns) const;
  void ListWaiting(EngineStatus& status, int64_t now_ns);
  Result<double> MeasureStep(std::span<BlockTable> tables, int64_t tokens);
  Result<> CheckIdle() const;
  Result<SavedSequence> OpenSaved(const std::string& path, Hash128& salt) const;
  Result<> LoadInto(const SavedSequence& saved, KeptSequence& kept,
                    const SavedSequenceProgress& progress);
  SavedSequenceKind KindOf(const Hash128& salt) const;

  LoadedModel* model_;
  const EngineConfig config_;
  BlockPool pool_;
  std::unique_ptr<StepForward> forward_;
  Scheduler scheduler_;
  RowSampler sampler_;
  Inbox inbox_;
  SteadyClock clock_;
  std::atomic<uint64_t> next_id_ = 1;

  std::unordered_map<uint64_t, std::unique_ptr<LiveRequest>> live_;
  Inbox::Mail mail_;
  std::vector<DiskCache::Loaded> loaded_;
  std::vector<Choice> choices_;                // of the step at work, in the plan's order
  std::vector<uint64_t> step_ids_;             // likewise
  std::vector<PrefillReport*> reports_;        // likewise: null for dense ones
  std::vector<const SparsePolicy*> policies_;  // likewise
  std::vector<int64_t> step_chunks_;           // likewise: prompt tokens, 0 for a decode row
  std::vector<SampleTask> samples_;
  std::vector<std::optional<Result<SampledToken>>> scores_;  // of prompt tokens, one for each row
  double sampling_seconds_ = 0;                              // of the step at work
  uint64_t generated_tokens_ = 0;
  EngineStatus counters_;  // those that nobody below counts; the rest is filled in by Status
  TokenRates rates_;

  // Held while requests, sequences and blocks change, and while Status looks at them; not while a
  // step is computed. Observers, which are called meanwhile, may ask for the status.
  std::recursive_mutex books_;
  std::unique_ptr<DiskCache> disk_;  // null for none; its thread wakes the inbox
};

}  // namespace baton
