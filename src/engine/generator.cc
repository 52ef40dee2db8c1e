#include "engine/generator.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "forward/step_forward.h"
#include "kv/block_table.h"
#include "sample/stop_matcher.h"
#include "step/request.h"
#include "text/detokenizer.h"

namespace baton {
namespace {

double SecondsBetween(int64_t begin_ns, int64_t end_ns) {
  return static_cast<double>(end_ns - begin_ns) * 1e-9;
}

}  // namespace

struct Generator::State {
  State(LoadedModel& loaded, const GeneratorOptions& generator_options, BlockPool block_pool)
      : model(loaded),
        options(generator_options),
        pool(std::move(block_pool)),
        table(pool, loaded.context_tokens),
        sampler(loaded.model->spec().vocab_size) {}

  // The tokens of the ledger that a step of `count` rows computes next.
  StepPlan PlanNext(int64_t count, Phase phase, LogitRows logits) const {
    StepPlan plan;
    SequenceStep& step = plan.sequences.emplace_back();
    step.first_position = ledger.computed;
    const auto first = ledger.known.begin() + ledger.computed;
    step.tokens.assign(first, first + count);
    step.blocks.assign(table.blocks().begin(), table.blocks().end());
    step.phase = phase;
    step.logits = logits;
    return plan;
  }

  // Runs a step and counts its tokens as computed. On an error nothing is counted.
  Result<> RunStep(StepPlan plan, LogitVisitor visit, const std::atomic<bool>& cancel) {
    const int64_t count = plan.sequences.front().num_rows();
    if (Result<> reserved = table.Reserve(count); !reserved) return reserved;
    plan.sequences.front().blocks.assign(table.blocks().begin(), table.blocks().end());
    if (Result<> run = forward->Run(plan, visit, cancel); !run) return run;
    table.Append(count);
    ledger.AdvanceComputed(count);
    return {};
  }

  // Makes `tokens` the known ones and keeps what is cached of them, but for the last token.
  // Returns how many tokens are cached.
  int64_t StartSequence(const std::vector<TokenId>& tokens) {
    const int64_t limit = std::min<int64_t>(ledger.computed, std::ssize(tokens) - 1);
    int64_t common = 0;
    while (common < limit &&
           ledger.known[static_cast<size_t>(common)] == tokens[static_cast<size_t>(common)]) {
      ++common;
    }
    table.Truncate(common);
    ledger.known = tokens;
    ledger.num_prompt = std::ssize(tokens);
    ledger.computed = common;
    return common;
  }

  Result<> CheckIds(const std::vector<TokenId>& tokens) const {
    const int64_t vocab_size = model.model->spec().vocab_size;
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] >= 0 && tokens[i] < vocab_size) continue;
      return Fail(ErrorCode::kInvalid,
                  fmt::format("token {} of the prompt is {}; the vocabulary has the ids 0..{}", i,
                              tokens[i], vocab_size - 1));
    }
    return {};
  }

  LoadedModel& model;
  GeneratorOptions options;
  SteadyClock clock;
  BlockPool pool;
  BlockTable table;
  std::optional<StepForward> forward;
  Request ledger;
  Sampler sampler;
};

namespace {

// One Generate: what its phases share.
class Generation {
 public:
  Generation(const GenerationRequest& request, GenerationObserver& observer, StopMatcher matcher,
             const Tokenizer& tokenizer)
      : request_(request),
        observer_(observer),
        matcher_(std::move(matcher)),
        tokenizer_(tokenizer),
        detokenizer_(tokenizer, {.skip_special = true, .starts_text = false}) {}

  GenerationResult& result() { return result_; }

  // Takes a chosen token into the answer. Returns whether a stop string ended it.
  bool Accept(const SampledToken& token) {
    result_.tokens.push_back(token);
    observer_.OnToken(token);
    if (tokenizer_.IsToken(token.id)) Emit(matcher_.Feed(detokenizer_.Push(token.id)));
    if (!matcher_.matched()) return false;
    result_.stopped_by = request_.stop_strings[static_cast<size_t>(*matcher_.match())];
    return true;
  }

  GenerationResult Finish(StopReason reason) {
    if (!matcher_.matched()) Emit(matcher_.Feed(detokenizer_.Finish()));
    Emit(matcher_.Finish());
    result_.stop_reason = matcher_.matched() ? StopReason::kStopString : reason;
    result_.figures.generated_tokens = std::ssize(result_.tokens);
    return std::move(result_);
  }

 private:
  void Emit(std::string_view text) {
    if (text.empty()) return;
    result_.text += text;
    observer_.OnText(text);
  }

  const GenerationRequest& request_;
  GenerationObserver& observer_;
  StopMatcher matcher_;
  const Tokenizer& tokenizer_;
  Detokenizer detokenizer_;
  GenerationResult result_;
};

}  // namespace

Generator::Generator(std::unique_ptr<State> state) : state_(std::move(state)) {}
Generator::Generator(Generator&&) noexcept = default;
Generator& Generator::operator=(Generator&&) noexcept = default;
Generator::~Generator() = default;

Result<Generator> Generator::Make(LoadedModel& model, const GeneratorOptions& options) {
  if (options.chunk_tokens < 1) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("the chunk is {} tokens; it must be at least 1", options.chunk_tokens));
  }
  Result<BlockLayout> layout = KvLayoutOf(model.model->spec());
  if (!layout) return Forward(layout);
  const int64_t num_blocks = NumBlocksFor(model.context_tokens);
  Result<BlockPool> pool = BlockPool::Make(*layout, static_cast<int32_t>(num_blocks));
  if (!pool) return Forward(pool);
  auto state = std::make_unique<State>(model, options, *std::move(pool));
  const KernelContext context{.table = KernelsFor(model.options.isa), .pool = *model.pool};
  Result<StepForward> forward =
      StepForward::Make(*model.model, state->pool, context,
                        {.max_sequences = 1,
                         .max_rows = std::min(options.chunk_tokens, model.context_tokens),
                         .max_context = model.context_tokens,
                         .precision = model.options.precision});
  if (!forward) return Forward(forward);
  state->forward.emplace(*std::move(forward));
  return Generator(std::move(state));
}

Result<GenerationResult> Generator::Generate(const GenerationRequest& request,
                                             GenerationObserver& observer,
                                             const std::atomic<bool>& cancel) {
  State& state = *state_;
  const int64_t vocab_size = state.model.model->spec().vocab_size;
  const Tokenizer& tokenizer = *state.model.tokenizer;
  const std::span<const TokenId> ends = tokenizer.EndTokens();
  const StopRules rules{.end_tokens = {ends.begin(), ends.end()},
                        .ignore_end_tokens = request.ignore_end_tokens,
                        .max_tokens = request.max_tokens,
                        .max_context = state.model.context_tokens};
  if (Result<> valid = Validate(request.sampling, vocab_size); !valid) return Forward(valid);
  if (Result<> valid = Validate(rules, vocab_size); !valid) return Forward(valid);
  if (request.prompt.empty()) return Fail(ErrorCode::kInvalid, "the prompt is empty");
  if (Result<> valid = state.CheckIds(request.prompt); !valid) return Forward(valid);
  if (Result<> fits = CheckPromptFits(rules, std::ssize(request.prompt)); !fits) {
    return Forward(fits);
  }
  Result<StopMatcher> matcher = StopMatcher::Make(request.stop_strings);
  if (!matcher) return Forward(matcher);

  Generation generation(request, observer, *std::move(matcher), tokenizer);
  GenerationFigures& figures = generation.result().figures;
  const int64_t begin_ns = state.clock.NowNs();
  Request& ledger = state.ledger;
  figures.prompt_tokens = std::ssize(request.prompt);
  figures.cached_tokens = state.StartSequence(request.prompt);
  const int64_t pending_prompt = ledger.num_pending();

  int64_t first_token_ns = begin_ns;
  int64_t last_token_ns = begin_ns;
  std::optional<StopReason> stop;
  while (!stop.has_value()) {
    stop = StopBeforeNext(
        rules, {.num_generated = ledger.num_generated(), .num_known = ledger.num_known()});
    if (stop.has_value()) break;

    // Computed catches up with known; the last row's logits give the next token.
    std::optional<Result<SampledToken>> sampled;
    const auto sample = [&](const RowLogits& row) {
      sampled.emplace(state.sampler.Sample(
          row.logits, request.sampling, {.tokens = ledger.known, .num_prompt = ledger.num_prompt}));
    };
    const bool is_prefill = ledger.num_generated() == 0;
    while (ledger.num_pending() > 0) {
      const int64_t count = std::min(state.options.chunk_tokens, ledger.num_pending());
      const bool is_last = count == ledger.num_pending();
      Result<> step =
          state.RunStep(state.PlanNext(count, is_prefill ? Phase::kPrefill : Phase::kDecode,
                                       is_last ? LogitRows::kLast : LogitRows::kNone),
                        sample, cancel);
      if (!step && step.error().code == ErrorCode::kCancelled) {
        stop = StopReason::kCancelled;
        break;
      }
      if (!step) return Forward(step);
      if (is_prefill) {
        observer.OnPrefill(pending_prompt - ledger.num_pending(), pending_prompt);
      }
    }
    if (stop.has_value()) break;
    CHECK(sampled.has_value());
    if (!*sampled) return Forward(*sampled);

    last_token_ns = state.clock.NowNs();
    if (is_prefill) first_token_ns = last_token_ns;
    const TokenId id = (*sampled)->id;
    if (EndsGeneration(rules, id)) {
      stop = StopReason::kEndToken;
      if (tokenizer.IsToken(id)) generation.result().stopped_by = tokenizer.Piece(id);
      break;
    }
    ledger.known.push_back(id);
    if (generation.Accept(**sampled)) stop = StopReason::kStopString;
  }

  figures.first_token_seconds = SecondsBetween(begin_ns, first_token_ns);
  figures.prefill_seconds = figures.first_token_seconds;
  figures.decode_seconds = SecondsBetween(first_token_ns, last_token_ns);
  figures.kv_bytes = static_cast<int64_t>(state.pool.owned_bytes());
  return generation.Finish(*stop);
}

Result<> Generator::Logits(
    const std::vector<TokenId>& tokens, const std::vector<int64_t>& positions,
    const std::function<void(int64_t position, std::span<const float> logits)>& visit,
    const std::atomic<bool>& cancel) {
  State& state = *state_;
  const int64_t count = std::ssize(tokens);
  if (tokens.empty()) return Fail(ErrorCode::kInvalid, "there are no tokens to evaluate");
  if (count > state.model.context_tokens) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("{} tokens do not fit into the context of {}; raise --ctx", count,
                            state.model.context_tokens));
  }
  if (Result<> valid = state.CheckIds(tokens); !valid) return valid;
  int64_t previous = -1;
  for (int64_t position : positions) {
    if (position <= previous || position >= count) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("position {}: positions must ascend and be below the {} tokens",
                              position, count));
    }
    previous = position;
  }
  Reset();
  state.StartSequence(tokens);
  Request& ledger = state.ledger;
  size_t next = 0;
  while (ledger.num_pending() > 0) {
    const int64_t first = ledger.computed;
    const int64_t rows = std::min(state.options.chunk_tokens, ledger.num_pending());
    StepPlan plan = state.PlanNext(rows, Phase::kPrefill, LogitRows::kList);
    for (; next < positions.size() && positions[next] < first + rows; ++next) {
      plan.sequences.front().logit_rows.push_back(static_cast<int32_t>(positions[next] - first));
    }
    const auto pass_on = [&](const RowLogits& row) { visit(first + row.row, row.logits); };
    if (Result<> step = state.RunStep(std::move(plan), pass_on, cancel); !step) return step;
  }
  return {};
}

void Generator::Reset() {
  state_->table.Clear();
  state_->ledger = Request();
}

int64_t Generator::cached_tokens() const {
  return state_->ledger.computed;
}

}  // namespace baton
