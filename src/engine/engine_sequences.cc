// The engine's sequences outside of requests: logits for evaluation, and sessions in files.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/number_text.h"
#include "engine/engine_loop.h"
#include "engine/prompt_policy.h"

namespace baton {

Result<> Engine::Loop::Logits(
    const std::vector<TokenId>& tokens, const std::vector<int64_t>& positions,
    const std::function<void(int64_t position, std::span<const float> logits)>& visit,
    const std::atomic<bool>& cancel) {
  CHECK(scheduler_.is_idle());
  const int64_t count = std::ssize(tokens);
  if (tokens.empty()) return Fail(ErrorCode::kInvalid, "there are no tokens to evaluate");
  if (count > model_->context_tokens) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("{} tokens do not fit into the context of {}; raise --ctx",
                            CountText(count), CountText(model_->context_tokens)));
  }
  if (Result<> valid = CheckIds(tokens); !valid) return valid;
  int64_t previous = -1;
  for (int64_t position : positions) {
    if (position <= previous || position >= count) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("position {}: positions must ascend and be below the {}", position,
                              CountOf(count, "token")));
    }
    previous = position;
  }
  (void)scheduler_.MakeFree(NumBlocksFor(count));
  BlockTable table(pool_, count);
  if (Result<> reserved = table.Reserve(count); !reserved) return reserved;
  StepPlan plan;
  SequenceStep& step = plan.sequences.emplace_back();
  step.blocks.assign(table.blocks().begin(), table.blocks().end());
  Result<std::optional<SparsePolicy>> policy = PolicyOfPrompt({}, count, *model_);
  if (!policy) return Forward(policy);
  int64_t chunk = config_.max_step_tokens;
  const SparsePolicy* policies[] = {nullptr};
  if (*policy) {
    if (Result<> admitted = forward_->Admit(**policy); !admitted) return admitted;
    policies[0] = &**policy;
    step.prompt_tokens = count;
    // Tiles stay whole. A model's chunk is at least one unit long (CheckPolicy).
    const int64_t unit = ReuseOfPrompt(*policy, count, model_->model->spec()).unit;
    chunk = chunk / unit * unit;
  }
  auto next = positions.begin();
  for (int64_t first = 0; first < count; first += step.num_rows()) {
    const int64_t end = std::min(first + chunk, count);
    step.first_position = first;
    step.tokens.assign(tokens.begin() + first, tokens.begin() + end);
    step.logit_rows.clear();
    for (; next != positions.end() && *next < end; ++next) {
      step.logit_rows.push_back(static_cast<int32_t>(*next - first));
    }
    step.logits = step.logit_rows.empty() ? LogitRows::kNone : LogitRows::kList;
    const auto pass_on = [&](std::span<const RowLogits> rows) {
      for (const RowLogits& row : rows) visit(first + row.row, row.logits);
    };
    const StepControl control = {.cancel = cancel, .policies = policies};
    if (Result<> run = forward_->Run(plan, pass_on, control); !run) return run;
  }
  return {};
}

// What blocks depend on besides the model: how their prompt was read.
SavedSequenceKind Engine::Loop::KindOf(const Hash128& salt) const {
  return {.key = Hasher()
                     .Add(model_->kv_key.low)
                     .Add(model_->kv_key.high)
                     .Add(salt.low)
                     .Add(salt.high)
                     .Finish(),
          .block_bytes = pool_.layout().block_bytes()};
}

// A file of the model's policy or, since short prompts are dense under any, of none.
Result<SavedSequence> Engine::Loop::OpenSaved(const std::string& path, Hash128& salt) const {
  const Result<std::optional<SparsePolicy>> policy =
      PolicyOfPrompt({}, std::numeric_limits<int64_t>::max(), *model_);
  if (!policy) return Forward(policy);
  salt = SaltOfPrompt({}, *policy);
  Result<SavedSequence> saved = SavedSequence::Open(path, KindOf(salt), model_->context_tokens);
  if (saved || !*policy || saved.error().code != ErrorCode::kInvalid) return saved;
  salt = {};
  Result<SavedSequence> dense = SavedSequence::Open(path, KindOf({}), model_->context_tokens);
  return dense ? std::move(dense) : std::move(saved);
}

Result<> Engine::Loop::SaveSession(uint64_t session, const std::string& path,
                                   const SavedSequenceProgress& progress) const {
  const KeptSequence* kept = scheduler_.sessions().Find(session);
  if (kept == nullptr || kept->ledger.computed == 0) {
    if (StatesPrefill({}, *model_)) {
      return Fail(
          ErrorCode::kInvalid,
          "there is no cache to save: of a sparse prefill only whole tiles before the dense "
          "ones at its end can serve another prompt, and this prompt has none; take a "
          "longer prompt or --prefill dense");
    }
    return Fail(ErrorCode::kInvalid,
                "there is no cache to save: nothing was computed; an answer of one token (-n 1) "
                "reads the prompt");
  }
  const int64_t computed = kept->ledger.computed;
  std::vector<const std::byte*> blocks;
  for (int64_t i = 0; i < NumBlocksFor(computed); ++i) {
    blocks.push_back(pool_.Data(kept->table.blocks()[static_cast<size_t>(i)]));
  }
  return SaveSequence({.path = path,
                       .kind = KindOf(kept->salt),
                       .tokens = std::span(kept->ledger.known).first(static_cast<size_t>(computed)),
                       .blocks = blocks,
                       .progress = progress});
}

Result<> Engine::Loop::LoadSession(uint64_t session, const std::string& path,
                                   const SavedSequenceProgress& progress) {
  (void)scheduler_.sessions().Take(session);
  Hash128 salt;
  const Result<SavedSequence> saved = OpenSaved(path, salt);
  if (!saved) return Forward(saved);
  const int64_t vocab_size = model_->model->spec().vocab_size;
  for (const TokenId id : saved->tokens()) {
    if (id >= 0 && id < vocab_size) continue;
    return Fail(ErrorCode::kCorrupt,
                fmt::format("{}: token {} is outside the vocabulary of {}", path, id, vocab_size));
  }
  KeptSequence kept{.ledger = {}, .table = BlockTable(pool_, model_->context_tokens), .salt = salt};
  if (Result<> loaded = LoadInto(*saved, kept, progress); !loaded) return loaded;
  scheduler_.sessions().Put(session, std::move(kept));
  return {};
}

Result<> Engine::Loop::LoadInto(const SavedSequence& saved, KeptSequence& kept,
                                const SavedSequenceProgress& progress) {
  const int64_t num_tokens = std::ssize(saved.tokens());
  (void)scheduler_.MakeFree(NumBlocksFor(num_tokens));
  if (Result<> reserved = kept.table.Reserve(num_tokens); !reserved) return reserved;
  for (int64_t i = 0; i < saved.num_blocks(); ++i) {
    std::byte* data = pool_.Data(kept.table.blocks()[static_cast<size_t>(i)]);
    if (Result<> read = saved.ReadBlock(i, {data, pool_.layout().block_bytes()}); !read) {
      return read;
    }
    if (progress) progress(i + 1, saved.num_blocks());
  }
  kept.table.Append(num_tokens);
  kept.ledger.known = saved.tokens();
  kept.ledger.num_prompt = num_tokens;
  kept.ledger.AdvanceComputed(num_tokens);
  return {};
}

}  // namespace baton
