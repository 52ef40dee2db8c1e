#include "evaluate/prompt_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "kv/block_table.h"

namespace baton {
namespace {

// Tells how far a prompt is while its chunks are computed.
class ChunkProgress final : public StepProgress {
 public:
  explicit ChunkProgress(const PromptReader::OnTokens& on_tokens) : on_tokens_(on_tokens) {}

  void Begin(int64_t first, int64_t count) {
    first_ = first;
    count_ = count;
  }
  void OnLayerDone(int layers_done, int num_layers) override {
    if (on_tokens_) on_tokens_(first_ + count_ * layers_done / num_layers);
  }

 private:
  const PromptReader::OnTokens& on_tokens_;
  int64_t first_ = 0;
  int64_t count_ = 0;
};

// The step that computes tokens [first, first + count) of a reading.
StepPlan PlanOf(const PromptReading& reading, const BlockTable& table, int64_t first,
                int64_t count) {
  StepPlan plan;
  SequenceStep& step = plan.sequences.emplace_back();
  step.first_position = first;
  const auto tokens =
      reading.tokens.subspan(static_cast<size_t>(first), static_cast<size_t>(count));
  step.tokens.assign(tokens.begin(), tokens.end());
  step.blocks.assign(table.blocks().begin(), table.blocks().end());
  step.prompt_tokens = reading.policy == nullptr ? 0 : std::ssize(reading.tokens);
  const auto from = std::ranges::lower_bound(reading.positions, first);
  const auto to = std::ranges::lower_bound(reading.positions, first + count);
  for (auto at = from; at != to; ++at) {
    step.logit_rows.push_back(static_cast<int32_t>(*at - first));
  }
  step.logits = step.logit_rows.empty() ? LogitRows::kNone : LogitRows::kList;
  return plan;
}

}  // namespace

Result<PromptReader> PromptReader::Make(LoadedModel& model, int64_t max_tokens) {
  const Result<BlockLayout> layout = KvLayoutOf(model.model->spec(), model.options.kv_type);
  if (!layout) return Forward(layout);
  Result<BlockPool> pool = BlockPool::Make(*layout, static_cast<int32_t>(NumBlocksFor(max_tokens)));
  if (!pool) return Forward(pool);
  return PromptReader(model, max_tokens, *std::move(pool));
}

int64_t PromptReader::ChunkTokens(const SparsePolicy* policy) const {
  const int64_t chunk = std::min(model_->options.chunk_tokens, max_tokens_);
  if (policy == nullptr) return chunk;
  const ModelSpec& spec = model_->model->spec();
  const int64_t tile = TilePositions(*policy, spec.num_heads / spec.num_kv_heads);
  return std::max(tile, chunk / tile * tile);
}

Result<double> PromptReader::Read(const PromptReading& reading, const Visit& visit,
                                  const OnTokens& on_tokens, const std::atomic<bool>& cancel) {
  const int64_t num_tokens = std::ssize(reading.tokens);
  if (num_tokens < 1 || num_tokens > max_tokens_) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("a prompt must have 1 to {} tokens, got {}", max_tokens_, num_tokens));
  }
  const int64_t chunk = ChunkTokens(reading.policy);
  const Model& model = *model_->model;
  Result<StepForward> forward = StepForward::Make(
      model, *pool_, {.table = KernelsFor(model_->options.isa), .pool = *model_->pool},
      {.max_sequences = 1,
       .max_rows = chunk,
       .max_context = max_tokens_,
       .precision = model_->options.precision,
       .prefill_policy =
           reading.policy == nullptr ? std::nullopt : std::optional(*reading.policy)});
  if (!forward) return Forward(forward);
  forward->SetRecorder(model_->options.recorder);
  if (reading.report != nullptr) {
    reading.report->layers.resize(static_cast<size_t>(model.spec().num_layers()));
  }
  BlockTable table(*pool_, num_tokens);
  if (Result<> reserved = table.Reserve(num_tokens); !reserved) return Forward(reserved);
  SteadyClock clock;
  ChunkProgress progress(on_tokens);
  int64_t visit_ns = 0;
  const int64_t start_ns = clock.NowNs();
  for (int64_t first = 0; first < num_tokens; first += chunk) {
    const int64_t count = std::min(chunk, num_tokens - first);
    const StepPlan plan = PlanOf(reading, table, first, count);
    progress.Begin(first, count);
    const auto hear = [&](std::span<const RowLogits> rows) {
      const int64_t begin_ns = clock.NowNs();
      for (const RowLogits& row : rows) visit(first + row.row, row.logits);
      visit_ns += clock.NowNs() - begin_ns;
    };
    PrefillReport* const report = reading.report;
    Result<> done = forward->Run(plan, hear,
                                 {.cancel = cancel,
                                  .progress = &progress,
                                  .reports = {&report, 1},
                                  .observer = reading.observer});
    if (!done) return Forward(done);
    table.Append(count);
  }
  return static_cast<double>(clock.NowNs() - start_ns - visit_ns) * 1e-9;
}

}  // namespace baton
