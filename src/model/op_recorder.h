// What steps spend their time on: every operation of every layer, timed.
//
// For --profile and --trace. An operation ends when all threads are done with it, so its time is
// what it adds to the step.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace baton {

// The operations of a step, in its order.
enum class StepOp : int {
  kEmbedding,
  kRopeTable,
  kAttentionNorm,  // the sum with the sublayer before, the norm, its result in kernel form
  kQueryKeyValue,  // the three matrices
  kHeads,          // biases, norms of heads, RoPE, and the KV cache's new tokens
  kPrefillAttention,
  kDecodeAttention,
  kAttentionInputs,  // of the output matrix, in kernel form
  kAttentionOutput,
  kFeedForwardNorm,  // as kAttentionNorm
  kGateUp,
  kActivation,  // and its result in kernel form
  kDown,
  kResidual,    // of the last layer: norm after a sublayer, and the sum
  kOutputNorm,  // and its result in kernel form
  kOutput,      // the logits
};
inline constexpr int kNumStepOps = 16;

// "attention norm", "decode attention", ...: as reports print it.
std::string_view StepOpName(StepOp op);

// A step is a prefill step if any of its rows is part of a prefill.
enum class StepKind : int { kPrefill, kDecode };
inline constexpr int kNumStepKinds = 2;

// Threads: one, that which runs the steps.
class OpRecorder {
 public:
  struct Options {
    bool keep_spans = false;  // each operation by itself, for a trace; else only sums
  };
  // Spans beyond this many are counted but not kept.
  static constexpr size_t kMaxSpans = size_t{4} << 20;

  struct Span {
    StepOp op;
    StepKind kind;
    int layer;  // -1: of no layer
    int64_t begin_ns;
    int64_t end_ns;
  };
  struct StepSpan {
    StepKind kind;
    int64_t num_rows;
    int64_t begin_ns;
    int64_t end_ns;
  };

  // Requires: `clock` outlives the recorder.
  OpRecorder(Clock& clock, Options options) : clock_(&clock), options_(options) {}

  void BeginStep(StepKind kind, int64_t num_rows, int num_layers);
  void EndStep();
  int64_t NowNs() { return clock_->NowNs(); }
  // An operation that began at `begin_ns` and ends now. Requires: within a step.
  void Add(StepOp op, int layer, int64_t begin_ns);

  // Sums over all steps of a kind. Units: nanoseconds.
  int64_t steps(StepKind kind) const { return steps_[static_cast<size_t>(kind)]; }
  int64_t rows(StepKind kind) const { return rows_[static_cast<size_t>(kind)]; }
  int64_t step_ns(StepKind kind) const { return step_ns_[static_cast<size_t>(kind)]; }
  int64_t op_ns(StepKind kind, StepOp op) const {
    return op_ns_[static_cast<size_t>(kind)][static_cast<size_t>(op)];
  }
  // By layer; empty if there was no step of the kind.
  const std::vector<int64_t>& layer_ns(StepKind kind) const {
    return layer_ns_[static_cast<size_t>(kind)];
  }

  const std::vector<Span>& spans() const { return spans_; }
  const std::vector<StepSpan>& step_spans() const { return step_spans_; }
  int64_t spans_left_out() const { return spans_left_out_; }

 private:
  Clock* clock_;
  Options options_;
  StepSpan step_ = {};
  std::array<int64_t, kNumStepKinds> steps_ = {};
  std::array<int64_t, kNumStepKinds> rows_ = {};
  std::array<int64_t, kNumStepKinds> step_ns_ = {};
  std::array<std::array<int64_t, kNumStepOps>, kNumStepKinds> op_ns_ = {};
  std::array<std::vector<int64_t>, kNumStepKinds> layer_ns_;
  std::vector<Span> spans_;
  std::vector<StepSpan> step_spans_;
  int64_t spans_left_out_ = 0;
};

// Records what happens in its scope as one operation; without a recorder it does nothing.
class OpScope {
 public:
  OpScope(OpRecorder* recorder, StepOp op, int layer)
      : recorder_(recorder),
        op_(op),
        layer_(layer),
        begin_ns_(recorder == nullptr ? 0 : recorder->NowNs()) {}
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;
  ~OpScope() { End(); }
  // Ends the operation; `op` of the same layer begins.
  void Next(StepOp op) {
    End();
    op_ = op;
    if (recorder_ != nullptr) begin_ns_ = recorder_->NowNs();
  }

 private:
  void End() {
    if (recorder_ != nullptr) recorder_->Add(op_, layer_, begin_ns_);
  }

  OpRecorder* recorder_;
  StepOp op_;
  int layer_;
  int64_t begin_ns_;
};

}  // namespace baton
