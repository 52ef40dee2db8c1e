#include "engine/sequence_runner.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "engine/memory_needs.h"

namespace baton {

SequenceRunner::SequenceRunner(BlockPool pool, const Options& options)
    : options_(options), pool_(std::move(pool)), table_(pool_, options.context_tokens) {}

Result<std::unique_ptr<SequenceRunner>> SequenceRunner::Make(LoadedModel& model) {
  Result<BlockLayout> layout = KvLayoutOf(model.model->spec());
  if (!layout) return Forward(layout);
  const int64_t num_blocks = NumBlocksFor(model.context_tokens);
  Result<BlockPool> pool = BlockPool::Make(*layout, static_cast<int32_t>(num_blocks));
  if (!pool) return Forward(pool);
  std::unique_ptr<SequenceRunner> runner(
      new SequenceRunner(*std::move(pool), {.context_tokens = model.context_tokens,
                                            .chunk_tokens = model.options.chunk_tokens,
                                            .vocab_size = model.model->spec().vocab_size,
                                            .kv_key = model.kv_key}));
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
  return std::min(options_.chunk_tokens, ledger_.num_pending());
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

Result<> SequenceRunner::Save(const std::string& path,
                              const SavedSequenceProgress& progress) const {
  CHECK_GE(ledger_.computed, 1);
  std::vector<const std::byte*> blocks;
  for (int64_t i = 0; i < NumBlocksFor(ledger_.computed); ++i) {
    blocks.push_back(pool_.Data(table_.blocks()[static_cast<size_t>(i)]));
  }
  return SaveSequence(
      {.path = path,
       .kind = Kind(),
       .tokens = std::span(ledger_.known).first(static_cast<size_t>(ledger_.computed)),
       .blocks = blocks,
       .progress = progress});
}

Result<> SequenceRunner::Load(const std::string& path, const SavedSequenceProgress& progress) {
  Reset();
  const Result<SavedSequence> saved = SavedSequence::Open(path, Kind(), options_.context_tokens);
  if (!saved) return Forward(saved);
  for (const TokenId id : saved->tokens()) {
    if (id >= 0 && id < options_.vocab_size) continue;
    return Fail(ErrorCode::kCorrupt, fmt::format("{}: token {} is outside the vocabulary of {}",
                                                 path, id, options_.vocab_size));
  }
  Result<> loaded = LoadInto(*saved, progress);
  if (!loaded) Reset();
  return loaded;
}

Result<> SequenceRunner::LoadInto(const SavedSequence& saved,
                                  const SavedSequenceProgress& progress) {
  const int64_t num_tokens = std::ssize(saved.tokens());
  if (Result<> reserved = table_.Reserve(num_tokens); !reserved) return reserved;
  for (int64_t i = 0; i < saved.num_blocks(); ++i) {
    std::byte* data = pool_.Data(table_.blocks()[static_cast<size_t>(i)]);
    if (Result<> read = saved.ReadBlock(i, {data, pool_.layout().block_bytes()}); !read) {
      return read;
    }
    if (progress) progress(i + 1, saved.num_blocks());
  }
  table_.Append(num_tokens);
  ledger_.known = saved.tokens();
  ledger_.num_prompt = num_tokens;
  ledger_.AdvanceComputed(num_tokens);
  return {};
}

}  // namespace baton
