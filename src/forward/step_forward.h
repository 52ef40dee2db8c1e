// The forward pass of one step: rows of both phases of several sequences, through all layers.
//
// All rows share the linear layers; then K and V of the step are written, and the rows of each
// phase go to that phase's attention (prefill.h, decode.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/function_ref.h"
#include "base/result.h"
#include "forward/decode.h"
#include "forward/prefill.h"
#include "kv/block_pool.h"
#include "model/decoder.h"
#include "model/model.h"
#include "step/step_plan.h"
#include "tensor/aligned_buffer.h"

namespace baton {

struct StepForwardOptions {
  int32_t max_sequences = 1;
  int64_t max_rows = 512;  // of a step
  int64_t max_context = 0;
  Precision precision = Precision::kFast;
  // How prompts are read; nothing: densely.
  std::optional<SparsePolicy> prefill_policy = std::nullopt;
};

// One row's logits. `sequence` indexes the plan's sequences, `row` that sequence's tokens.
// Shapes: logits: [vocab_size] f32, valid during the call.
struct RowLogits {
  int32_t sequence = 0;
  int32_t row = 0;
  std::span<const float> logits;
};
// Some of a step's rows with logits, in the plan's order.
using LogitVisitor = FunctionRef<void(std::span<const RowLogits>)>;

// Hears how far a step is. Called on the thread that runs it.
class StepProgress {
 public:
  virtual ~StepProgress() = default;
  virtual void OnLayerDone(int layers_done, int num_layers) = 0;
};

struct StepControl {
  // Looked at between the tasks of every loop; once true it stays so for the rest of the step.
  const std::atomic<bool>& cancel;
  StepProgress* progress = nullptr;  // null for none
  // What sparse prefills tell: one for each sequence of the plan, null for none; or no list.
  std::span<PrefillReport* const> reports = {};
  // How each sequence's prompt is read, null: densely; or no list: all by the options' policy.
  // Requires: Admit took them.
  std::span<const SparsePolicy* const> policies = {};
  // Hears what every tile of a sparse prefill kept, sequences one after the other; null for none.
  TileObserver* observer = nullptr;
};

// The layout of a model's KV blocks. Errors: invalid.
Result<BlockLayout> KvLayoutOf(const ModelSpec& spec, KvType type);

// What a prefill policy may refer to.
PolicyModel PolicyModelOf(const ModelSpec& spec);

class StepForward {
 public:
  // Requires: model, pool and what context refers to outlive the object; the pool's layout is
  // KvLayoutOf(model.spec(), any type).
  // Errors: exhausted; invalid (a policy that the model cannot have).
  static Result<StepForward> Make(const Model& model, BlockPool& pool, const KernelContext& context,
                                  const StepForwardOptions& options);

  // Makes room for steps under this policy, so that they allocate nothing. Between steps.
  // Errors: invalid (a policy that the model cannot have), exhausted.
  Result<> Admit(const SparsePolicy& policy);
  // What attention needs under it, for any step. Units: bytes. Threads: any.
  size_t PolicyBytes(const SparsePolicy& policy) const;

  // Memory of the buffers, for estimates before anything is loaded. Units: bytes.
  static uint64_t BufferBytes(const ModelSpec& spec, const StepForwardOptions& options,
                              int num_threads);

  // Computes the plan's rows, writes their K and V into their blocks, and calls `visit` with all
  // rows with logits, a few at a time.
  // Errors: invalid (the plan breaks a limit), cancelled (blocks of the step's rows are then
  // undefined from first_position on; what was computed before stays).
  // Memory: allocates nothing.
  Result<> Run(const StepPlan& plan, LogitVisitor visit, const StepControl& control);

  // Null for none. What is set outlives its use.
  void SetRecorder(OpRecorder* recorder) { decoder_.SetRecorder(recorder); }
  void SetObserver(StepObserver* observer) { decoder_.SetObserver(observer); }

 private:
  StepForward(const Model& model, BlockPool& pool, Decoder decoder,
              const StepForwardOptions& options);
  void ReserveLists();
  void PlanPhases(const StepPlan& plan);
  Result<> RunLayers(const StepControl& control);
  void RunLayer(int layer, const StepControl& control);
  KvTarget CacheTarget(int layer) const;
  void Attend(int layer, const StepControl& control);
  Result<> VisitLogits(const StepPlan& plan, LogitVisitor visit, const StepControl& control);
  Result<> VisitBatch(LogitVisitor visit, const StepControl& control);

  const Model* model_;
  BlockPool* pool_;
  Decoder decoder_;
  StepForwardOptions options_;
  AttentionShape shape_;
  PrefillPhase prefill_;
  DecodePhase decode_;
  std::vector<TokenId> tokens_;
  std::vector<int64_t> positions_;
  std::vector<KvWriteSequence> writes_;
  std::vector<int64_t> logit_rows_;  // of the step
  std::vector<int64_t> batch_rows_;
  std::vector<RowLogits> batch_;
  AlignedBytes workspace_;
  SteadyClock clock_;            // of reports
  AlignedBuffer<float> logits_;  // [rows of a batch, vocab_size]
};

}  // namespace baton
