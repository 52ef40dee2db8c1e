// What is done before the first request: the cache's memory is taken, and a few steps of known
// kinds are measured, so that the first chunks are sized by more than a guess.
#include <algorithm>
#include <vector>

#include "engine/engine_loop.h"

namespace baton {
namespace {

// A kind of step that takes longer ends the measuring: larger ones would take longer still.
constexpr double kLongSeconds = 0.25;
constexpr int kRepeats = 3;

}  // namespace

// One step of `rows` sequences that get `tokens` each, behind what their tables hold. What it took
// is learnt; the tables stay as they were.
Result<double> Engine::Loop::MeasureStep(std::span<BlockTable> tables, int64_t tokens) {
  StepPlan plan;
  StepFeatures features;
  for (BlockTable& table : tables) {
    (void)scheduler_.MakeFree(table.BlocksToReserve(tokens));
    if (Result<> reserved = table.Reserve(tokens); !reserved) return Forward(reserved);
    SequenceStep& step = plan.sequences.emplace_back();
    step.slot = static_cast<int32_t>(plan.sequences.size()) - 1;
    step.first_position = table.num_tokens();
    step.tokens.assign(static_cast<size_t>(tokens), 0);
    step.blocks.assign(table.blocks().begin(), table.blocks().end());
    step.phase = tokens == 1 ? Phase::kDecode : Phase::kPrefill;
    step.logits = LogitRows::kLast;
    if (tokens == 1) {
      features.AddDecode(table.num_tokens());
    } else {
      features.AddPrefill(tokens, table.num_tokens());
    }
  }
  const std::atomic<bool> cancel = false;
  const int64_t begin = clock_.NowNs();
  Result<> run = forward_->Run(plan, [](std::span<const RowLogits>) {}, {.cancel = cancel});
  if (!run) return Forward(run);
  const double seconds = static_cast<double>(clock_.NowNs() - begin) * 1e-9;
  scheduler_.Learn(features, seconds);
  return seconds;
}

void Engine::Loop::TakeCacheMemory() {
  model_->pool->ParallelFor(pool_.num_blocks(), [&](int64_t block, int) {
    pool_.TakeMemory(static_cast<int32_t>(block));
  });
}

Result<> Engine::Loop::Calibrate() {
  const int64_t num_rows = std::min<int64_t>(config_.max_running, 8);
  const int64_t context = std::min<int64_t>(model_->context_tokens - 1, 1024);
  std::vector<BlockTable> tables;
  for (int64_t i = 0; i < num_rows; ++i) tables.emplace_back(pool_, model_->context_tokens);
  const std::span<BlockTable> all(tables);
  const std::span<BlockTable> one = all.first(1);
  // The first step of a kind also fetches what lies far away: not learnt would be better, but the
  // fit takes it for a step that was delayed.
  for (const std::span<BlockTable> some : {one, all}) {
    for (int i = 0; i < kRepeats; ++i) {
      if (Result<double> step = MeasureStep(some, 1); !step) return Forward(step);
    }
  }
  for (const int64_t tokens : {int64_t{32}, int64_t{128}, config_.max_step_tokens}) {
    if (tokens < 2 || tokens > std::min(config_.max_step_tokens, context)) continue;
    const Result<double> step = MeasureStep(one, tokens);
    if (!step) return Forward(step);
    if (*step > kLongSeconds) return {};
  }
  // Behind a past whose keys nobody computed: zero as any other number.
  (void)scheduler_.MakeFree(tables.front().BlocksToReserve(context));
  if (Result<> reserved = tables.front().Reserve(context); !reserved) return reserved;
  tables.front().Append(context - 1);
  for (int i = 0; i < kRepeats; ++i) {
    if (Result<double> step = MeasureStep(one, 1); !step) return Forward(step);
  }
  tables.front().Truncate(context / 2);
  const int64_t chunk = std::min({int64_t{128}, config_.max_step_tokens, context / 4});
  if (chunk < 2) return {};
  const Result<double> step = MeasureStep(one, chunk);
  return step ? Result<>() : Forward(step);
}

}  // namespace baton
