#include "forward/step_forward.h"

#include <algorithm>

#include "base/check.h"

namespace baton {
namespace {

// Rows whose logits are computed together: enough to share the pass over the output matrix, few
// enough that a vocabulary of 262,144 takes 16 MB.
constexpr int64_t kLogitBatchRows = 16;

AttentionShape ShapeOf(const ModelSpec& spec) {
  return {
      .num_heads = spec.num_heads, .num_kv_heads = spec.num_kv_heads, .head_dim = spec.head_dim};
}

DecoderOptions DecoderOptionsOf(const StepForwardOptions& options) {
  return {.max_rows = options.max_rows,
          .max_logit_rows = kLogitBatchRows,
          .precision = options.precision};
}

size_t PrefillBytes(const ModelSpec& spec, const StepForwardOptions& options,
                    const SparsePolicy* policy, int num_threads) {
  return PrefillPhase::WorkspaceBytes(ShapeOf(spec), {.policy = policy,
                                                      .max_rows = options.max_rows,
                                                      .max_context = options.max_context,
                                                      .num_threads = num_threads});
}

const SparsePolicy* PolicyOf(const StepForwardOptions& options) {
  return options.prefill_policy ? &*options.prefill_policy : nullptr;
}

// For any step: prefill and decode take turns in it.
size_t AttentionWorkspaceBytes(const ModelSpec& spec, const StepForwardOptions& options,
                               int num_threads) {
  return std::max(
      PrefillBytes(spec, options, PolicyOf(options), num_threads),
      DecodePhase::WorkspaceBytes(ShapeOf(spec), {.max_sequences = options.max_sequences,
                                                  .max_context = options.max_context,
                                                  .num_threads = num_threads}));
}

bool IsCancelled(const StepControl& control) {
  return control.cancel.load(std::memory_order_relaxed);
}

Result<> Cancelled() {
  return Fail(ErrorCode::kCancelled, "the step was cancelled");
}

}  // namespace

PolicyModel PolicyModelOf(const ModelSpec& spec) {
  return {.num_layers = spec.num_layers(),
          .num_heads = spec.num_heads,
          .num_kv_heads = spec.num_kv_heads};
}

Result<BlockLayout> KvLayoutOf(const ModelSpec& spec, KvType type) {
  return BlockLayout::Make({.num_layers = spec.num_layers(),
                            .num_kv_heads = spec.num_kv_heads,
                            .head_dim = spec.head_dim,
                            .type = type});
}

StepForward::StepForward(const Model& model, BlockPool& pool, Decoder decoder,
                         const StepForwardOptions& options)
    : model_(&model),
      pool_(&pool),
      decoder_(std::move(decoder)),
      options_(options),
      shape_(ShapeOf(model.spec())) {}

Result<StepForward> StepForward::Make(const Model& model, BlockPool& pool,
                                      const KernelContext& context,
                                      const StepForwardOptions& options) {
  Result<BlockLayout> layout = KvLayoutOf(model.spec(), pool.layout().shape().type);
  if (!layout) return Forward(layout);
  CHECK(*layout == pool.layout());
  if (options.prefill_policy) {
    Result<> valid = ValidatePolicyFor(*options.prefill_policy, PolicyModelOf(model.spec()));
    if (!valid) return Forward(valid);
  }
  Result<Decoder> decoder = Decoder::Make(model, context, DecoderOptionsOf(options));
  if (!decoder) return Forward(decoder);
  StepForward forward(model, pool, *std::move(decoder), options);
  Result<AlignedBuffer<float>> logits = AlignedBuffer<float>::Allocate(
      static_cast<size_t>(kLogitBatchRows * model.spec().vocab_size));
  if (!logits) return Forward(logits);
  forward.logits_ = *std::move(logits);
  Result<AlignedBytes> workspace = AlignedBytes::Allocate(
      AttentionWorkspaceBytes(model.spec(), options, context.pool.num_threads()));
  if (!workspace) return Forward(workspace);
  forward.workspace_ = *std::move(workspace);
  forward.ReserveLists();
  return forward;
}

size_t StepForward::PolicyBytes(const SparsePolicy& policy) const {
  return PrefillBytes(model_->spec(), options_, &policy, decoder_.context().pool.num_threads());
}

Result<> StepForward::Admit(const SparsePolicy& policy) {
  Result<> valid = ValidatePolicyFor(policy, PolicyModelOf(model_->spec()));
  if (!valid) return valid;
  const size_t wanted = PolicyBytes(policy);
  if (wanted <= workspace_.size()) return {};
  Result<AlignedBytes> workspace = AlignedBytes::Allocate(wanted);
  if (!workspace) return Forward(workspace);
  workspace_ = *std::move(workspace);
  return {};
}

void StepForward::ReserveLists() {
  const int64_t max_blocks = options_.max_sequences * NumBlocksFor(options_.max_context);
  prefill_.Reserve(options_.max_sequences, max_blocks);
  decode_.Reserve(options_.max_sequences, max_blocks);
  writes_.reserve(static_cast<size_t>(options_.max_sequences));
  tokens_.reserve(static_cast<size_t>(options_.max_rows));
  positions_.reserve(static_cast<size_t>(options_.max_rows));
  logit_rows_.reserve(static_cast<size_t>(options_.max_rows));
  batch_.reserve(kLogitBatchRows);
  batch_rows_.reserve(kLogitBatchRows);
}

uint64_t StepForward::BufferBytes(const ModelSpec& spec, const StepForwardOptions& options,
                                  int num_threads) {
  return Decoder::BufferBytes(spec, DecoderOptionsOf(options)) +
         static_cast<uint64_t>(kLogitBatchRows * spec.vocab_size) * sizeof(float) +
         AttentionWorkspaceBytes(spec, options, num_threads);
}

Result<> StepForward::Run(const StepPlan& plan, LogitVisitor visit, const StepControl& control) {
  Result<> valid = Validate(plan, {.max_sequences = options_.max_sequences,
                                   .max_rows = options_.max_rows,
                                   .max_context = options_.max_context,
                                   .vocab_size = model_->spec().vocab_size,
                                   .num_blocks = pool_->num_blocks()});
  if (!valid) return valid;
  if (plan.sequences.empty()) return {};
  PlanPhases(plan);
  valid = prefill_.CheckTiles({.policy = PolicyOf(options_), .policies = control.policies}, shape_);
  if (!valid) return valid;
  ThreadPool& threads = decoder_.context().pool;
  OpRecorder* recorder = decoder_.recorder();
  if (recorder != nullptr) {
    recorder->BeginStep(prefill_.empty() ? StepKind::kDecode : StepKind::kPrefill,
                        std::ssize(tokens_), model_->spec().num_layers());
  }
  threads.SetCancel(&control.cancel);
  decoder_.Begin(tokens_, positions_);
  Result<> done = RunLayers(control);
  if (done) done = VisitLogits(plan, visit, control);
  threads.SetCancel(nullptr);
  if (recorder != nullptr) recorder->EndStep();
  return done;
}

void StepForward::PlanPhases(const StepPlan& plan) {
  prefill_.Clear();
  decode_.Clear();
  tokens_.clear();
  positions_.clear();
  logit_rows_.clear();
  for (const SequenceStep& sequence : plan.sequences) {
    const int64_t first_row = static_cast<int64_t>(tokens_.size());
    if (sequence.phase == Phase::kPrefill) {
      prefill_.Add(sequence, &sequence - plan.sequences.data(), first_row, *pool_);
    } else {
      decode_.Add(sequence, first_row, *pool_);
    }
    tokens_.insert(tokens_.end(), sequence.tokens.begin(), sequence.tokens.end());
    for (int64_t i = 0; i < sequence.num_rows(); ++i) {
      positions_.push_back(sequence.first_position + i);
    }
    for (int64_t n = 0; n < sequence.num_logit_rows(); ++n) {
      logit_rows_.push_back(first_row + sequence.LogitRow(n));
    }
  }
  prefill_.Finish();
  decode_.Finish();
  writes_.assign(prefill_.writes().begin(), prefill_.writes().end());
  writes_.insert(writes_.end(), decode_.writes().begin(), decode_.writes().end());
}

Result<> StepForward::RunLayers(const StepControl& control) {
  const int num_layers = model_->spec().num_layers();
  for (int layer = 0; layer < num_layers; ++layer) {
    RunLayer(layer, control);
    if (IsCancelled(control)) return Cancelled();
    if (control.progress != nullptr) control.progress->OnLayerDone(layer + 1, num_layers);
  }
  return {};
}

// Of the last layer all rows need keys and values, but only rows with logits need the rest.
void StepForward::RunLayer(int layer, const StepControl& control) {
  const bool is_last = layer + 1 == model_->spec().num_layers();
  decoder_.AttentionInputs(layer, CacheTarget(layer));
  if (is_last && logit_rows_.empty()) return;
  Attend(layer, control);
  if (is_last) decoder_.KeepRows(logit_rows_);
  decoder_.AttentionOutput(layer);
  decoder_.FeedForward(layer);
  if (is_last) decoder_.FinishLayers();
}

KvTarget StepForward::CacheTarget(int layer) const {
  const BlockLayout& layout = pool_->layout();
  return {.sequences = writes_,
          .num_kv_heads = shape_.num_kv_heads,
          .head_dim = shape_.head_dim,
          .record_offset = layout.RecordOffset(layer, 0),
          .head_stride = layout.head_stride(),
          .kv_type = layout.shape().type};
}

void StepForward::Attend(int layer, const StepControl& control) {
  const BlockLayout& layout = pool_->layout();
  const LayerSpec& spec = model_->spec().layers[static_cast<size_t>(layer)];
  const size_t record_offset = layout.RecordOffset(layer, 0);
  OpRecorder* recorder = decoder_.recorder();
  const PhaseArgs args{.context = decoder_.context(),
                       .q = decoder_.q(),
                       .out = decoder_.attention(),
                       .shape = shape_,
                       .layer = {.scale = spec.attention_scale,
                                 .soft_cap = spec.attention_soft_cap,
                                 .sliding_window = spec.sliding_window,
                                 .record_offset = record_offset,
                                 .head_stride = layout.head_stride(),
                                 .kv_type = layout.shape().type},
                       .workspace = {workspace_.data(), workspace_.size()}};
  if (!prefill_.empty()) {
    const OpScope scope(recorder, StepOp::kPrefillAttention, layer);
    prefill_.Attend(args, {.policy = PolicyOf(options_),
                           .policies = control.policies,
                           .layer = layer,
                           .reports = control.reports,
                           .clock = &clock_,
                           .observer = control.observer});
  }
  if (!decode_.empty()) {
    const OpScope scope(recorder, StepOp::kDecodeAttention, layer);
    decode_.Attend(args);
  }
}

Result<> StepForward::VisitLogits(const StepPlan& plan, LogitVisitor visit,
                                  const StepControl& control) {
  batch_.clear();
  batch_rows_.clear();
  int64_t kept_row = 0;  // where KeepRows put it
  for (size_t s = 0; s < plan.sequences.size(); ++s) {
    const SequenceStep& sequence = plan.sequences[s];
    for (int64_t n = 0; n < sequence.num_logit_rows(); ++n, ++kept_row) {
      batch_.push_back({.sequence = static_cast<int32_t>(s),
                        .row = static_cast<int32_t>(sequence.LogitRow(n)),
                        .logits = {}});
      batch_rows_.push_back(kept_row);
      if (std::ssize(batch_rows_) < kLogitBatchRows) continue;
      if (Result<> visited = VisitBatch(visit, control); !visited) return visited;
    }
  }
  return batch_rows_.empty() ? Result<>() : VisitBatch(visit, control);
}

Result<> StepForward::VisitBatch(LogitVisitor visit, const StepControl& control) {
  const View2<float> logits(logits_.data(), std::ssize(batch_rows_), model_->spec().vocab_size);
  decoder_.Logits(batch_rows_, logits);
  if (IsCancelled(control)) return Cancelled();
  for (int64_t i = 0; i < logits.rows(); ++i) {
    RowLogits& row = batch_[static_cast<size_t>(i)];
    row.logits = logits.Row(i).span();
  }
  visit(batch_);
  // What the visitor computed with the pool's threads is undefined then, too.
  if (IsCancelled(control)) return Cancelled();
  batch_.clear();
  batch_rows_.clear();
  return {};
}

}  // namespace baton
