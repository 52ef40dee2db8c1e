#include "model/op_recorder.h"

#include "base/check.h"

namespace baton {

std::string_view StepOpName(StepOp op) {
  constexpr std::array<std::string_view, kNumStepOps> kNames = {"embedding",
                                                                "RoPE table",
                                                                "attention norm",
                                                                "query, key, value",
                                                                "heads and KV write",
                                                                "prefill attention",
                                                                "decode attention",
                                                                "attention inputs",
                                                                "attention output",
                                                                "feed-forward norm",
                                                                "gate and up",
                                                                "activation",
                                                                "down",
                                                                "residual",
                                                                "output norm",
                                                                "output"};
  return kNames[static_cast<size_t>(op)];
}

void OpRecorder::BeginStep(StepKind kind, int64_t num_rows, int num_layers) {
  const size_t k = static_cast<size_t>(kind);
  step_ = {.kind = kind, .num_rows = num_rows, .begin_ns = NowNs(), .end_ns = 0};
  ++steps_[k];
  rows_[k] += num_rows;
  layer_ns_[k].resize(static_cast<size_t>(num_layers));
}

void OpRecorder::EndStep() {
  step_.end_ns = NowNs();
  step_ns_[static_cast<size_t>(step_.kind)] += step_.end_ns - step_.begin_ns;
  if (options_.keep_spans && step_spans_.size() < kMaxSpans) step_spans_.push_back(step_);
}

void OpRecorder::Add(StepOp op, int layer, int64_t begin_ns) {
  const int64_t end_ns = NowNs();
  const size_t kind = static_cast<size_t>(step_.kind);
  op_ns_[kind][static_cast<size_t>(op)] += end_ns - begin_ns;
  if (layer >= 0) {
    CHECK_LT(static_cast<size_t>(layer), layer_ns_[kind].size());
    layer_ns_[kind][static_cast<size_t>(layer)] += end_ns - begin_ns;
  }
  if (!options_.keep_spans) return;
  if (spans_.size() == kMaxSpans) {
    ++spans_left_out_;
    return;
  }
  spans_.push_back(
      {.op = op, .kind = step_.kind, .layer = layer, .begin_ns = begin_ns, .end_ns = end_ns});
}

}  // namespace baton
