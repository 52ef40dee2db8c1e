#include "engine/sequence_runner.h"

#include <algorithm>

#include "engine/memory_needs.h"

namespace baton {

SequenceRunner::SequenceRunner(BlockPool pool, int64_t context_tokens, int64_t chunk_tokens)
    : chunk_tokens_(chunk_tokens), pool_(std::move(pool)), table_(pool_, context_tokens) {}

Result<std::unique_ptr<SequenceRunner>> SequenceRunner::Make(LoadedModel& model) {
  Result<BlockLayout> layout = KvLayoutOf(model.model->spec());
  if (!layout) return Forward(layout);
  const int64_t num_blocks = NumBlocksFor(model.context_tokens);
  Result<BlockPool> pool = BlockPool::Make(*layout, static_cast<int32_t>(num_blocks));
  if (!pool) return Forward(pool);
  std::unique_ptr<SequenceRunner> runner(
      new SequenceRunner(*std::move(pool), model.context_tokens, model.options.chunk_tokens));
  const KernelContext context{.table = KernelsFor(model.options.isa), .pool = *model.pool};
  Result<StepForward> forward = StepForward::Make(
      *model.model, runner->pool_, context, QuestionOf(model.options, model.context_tokens).step);
  if (!forward) return Forward(forward);
  runner->forward_ = std::make_unique<StepForward>(*std::move(forward));
  runner->forward_->SetRecorder(model.options.recorder);
  return runner;
}

void SequenceRunner::Start(const std::vector<TokenId>& tokens) {
  CHECK(!tokens.empty());
  const int64_t limit = std::min<int64_t>(ledger_.computed, std::ssize(tokens) - 1);
  const auto [cached_end, tokens_end] =
      std::mismatch(ledger_.known.begin(), ledger_.known.begin() + limit, tokens.begin());
  const int64_t common = cached_end - ledger_.known.begin();
  table_.Truncate(common);
  ledger_.known = tokens;
  ledger_.known.reserve(static_cast<size_t>(table_.max_tokens()));
  ledger_.num_prompt = std::ssize(tokens);
  ledger_.computed = common;
}

int64_t SequenceRunner::NextChunkTokens() const {
  return std::min(chunk_tokens_, ledger_.num_pending());
}

Result<> SequenceRunner::ComputeChunk(const Chunk& chunk, LogitVisitor visit,
                                      const StepControl& control) {
  const int64_t count = NextChunkTokens();
  CHECK_GE(count, 1);
  if (Result<> reserved = table_.Reserve(count); !reserved) return reserved;
  plan_.sequences.resize(1);
  SequenceStep& step = plan_.sequences.front();
  step.first_position = ledger_.computed;
  const auto first = ledger_.known.begin() + ledger_.computed;
  step.tokens.assign(first, first + count);
  step.blocks.assign(table_.blocks().begin(), table_.blocks().end());
  step.phase = chunk.phase;
  step.logits = chunk.logits;
  step.logit_rows = chunk.logit_rows;
  if (Result<> run = forward_->Run(plan_, visit, control); !run) return run;
  table_.Append(count);
  ledger_.AdvanceComputed(count);
  return {};
}

void SequenceRunner::Reset() {
  table_.Clear();
  ledger_ = Request();
}

}  // namespace baton
