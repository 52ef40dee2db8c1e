#include "engine/generator.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/clock.h"
#include "base/number_text.h"
#include "engine/sequence_runner.h"
#include "sample/stop_matcher.h"
#include "text/detokenizer.h"

namespace baton {
namespace {

double SecondsBetween(int64_t begin_ns, int64_t end_ns) {
  return static_cast<double>(end_ns - begin_ns) * 1e-9;
}

// One Generate: from the first chunk of the prompt to the reason to stop.
class Generation : private StepProgress {
 public:
  struct Parts {
    const GenerationRequest& request;
    const StopRules& rules;
    GenerationObserver& observer;
    const Tokenizer& tokenizer;
    SequenceRunner& runner;
    Sampler& sampler;
    const std::atomic<bool>& cancel;
  };

  Generation(const Parts& parts, StopMatcher matcher)
      : parts_(parts),
        matcher_(std::move(matcher)),
        detokenizer_(parts.tokenizer, {.skip_special = true, .starts_text = false}) {}

  Result<GenerationResult> Run() {
    begin_ns_ = first_token_ns_ = last_token_ns_ = clock_.NowNs();
    const Request& ledger = parts_.runner.ledger();
    parts_.runner.Start(parts_.request.prompt);
    result_.figures.prompt_tokens = ledger.num_prompt;
    result_.figures.cached_tokens = ledger.computed;
    std::optional<StopReason> stop;
    while (!stop.has_value()) {
      stop = StopBeforeNext(
          parts_.rules, {.num_generated = ledger.num_generated(), .num_known = ledger.num_known()});
      if (stop.has_value()) break;
      Result<SampledToken> token = ComputeNext();
      if (!token) {
        if (token.error().code != ErrorCode::kCancelled) return Forward(token);
        stop = StopReason::kCancelled;
      } else {
        stop = Accept(*token);
      }
    }
    return Finish(*stop);
  }

 private:
  // Lets computed catch up with known and draws from the last row's logits.
  Result<SampledToken> ComputeNext() {
    const Request& ledger = parts_.runner.ledger();
    const bool is_prefill = ledger.num_generated() == 0;
    std::optional<Result<SampledToken>> sampled;
    const auto sample = [&](const RowLogits& row) {
      sampled = parts_.sampler.Sample(row.logits, parts_.request.sampling,
                                      {.tokens = ledger.known, .num_prompt = ledger.num_prompt});
    };
    const StepControl control{.cancel = parts_.cancel, .progress = is_prefill ? this : nullptr};
    while (ledger.num_pending() > 0) {
      const bool is_last = parts_.runner.NextChunkTokens() == ledger.num_pending();
      Result<> step =
          parts_.runner.ComputeChunk({.phase = is_prefill ? Phase::kPrefill : Phase::kDecode,
                                      .logits = is_last ? LogitRows::kLast : LogitRows::kNone,
                                      .logit_rows = {}},
                                     sample, control);
      if (!step) return Forward(step);
    }
    last_token_ns_ = clock_.NowNs();
    if (is_prefill) first_token_ns_ = last_token_ns_;
    CHECK(sampled.has_value());
    return *std::move(sampled);
  }

  // A layer of a chunk counts as its share of the chunk's tokens.
  void OnLayerDone(int layers_done, int num_layers) override {
    const int64_t total = parts_.runner.ledger().num_prompt - result_.figures.cached_tokens;
    const int64_t before = total - parts_.runner.ledger().num_pending();
    const int64_t chunk = parts_.runner.NextChunkTokens();
    parts_.observer.OnPrefill(before + chunk * layers_done / num_layers, total);
  }

  // Takes a chosen token into the answer. Returns the reason to stop, if it is one.
  std::optional<StopReason> Accept(const SampledToken& token) {
    if (EndsGeneration(parts_.rules, token.id)) {
      result_.stopped_by = parts_.tokenizer.Piece(token.id);
      return StopReason::kEndToken;
    }
    parts_.runner.Push(token.id);
    result_.tokens.push_back(token);
    parts_.observer.OnToken(token);
    // A model may have more rows than its vocabulary has tokens; those spell nothing.
    if (parts_.tokenizer.IsToken(token.id)) Emit(matcher_.Feed(detokenizer_.Push(token.id)));
    if (!matcher_.matched()) return std::nullopt;
    return StopReason::kStopString;
  }

  void Emit(std::string_view text) {
    if (text.empty()) return;
    result_.text += text;
    parts_.observer.OnText(text);
  }

  GenerationResult Finish(StopReason reason) {
    if (!matcher_.matched()) Emit(matcher_.Feed(detokenizer_.Finish()));
    Emit(matcher_.Finish());
    if (matcher_.matched()) {
      reason = StopReason::kStopString;
      result_.stopped_by = parts_.request.stop_strings[static_cast<size_t>(*matcher_.match())];
    }
    result_.stop_reason = reason;
    GenerationFigures& figures = result_.figures;
    figures.generated_tokens = std::ssize(result_.tokens);
    figures.first_token_seconds = SecondsBetween(begin_ns_, first_token_ns_);
    figures.prefill_seconds = figures.first_token_seconds;
    figures.decode_seconds = SecondsBetween(first_token_ns_, last_token_ns_);
    figures.kv_bytes = parts_.runner.kv_bytes();
    return std::move(result_);
  }

  Parts parts_;
  StopMatcher matcher_;
  Detokenizer detokenizer_;
  SteadyClock clock_;
  GenerationResult result_;
  int64_t begin_ns_ = 0;
  int64_t first_token_ns_ = 0;
  int64_t last_token_ns_ = 0;
};

}  // namespace

Generator::Generator(LoadedModel& model, std::unique_ptr<SequenceRunner> runner)
    : model_(&model),
      runner_(std::move(runner)),
      sampler_(std::make_unique<Sampler>(model.model->spec().vocab_size)) {}
Generator::Generator(Generator&&) noexcept = default;
Generator& Generator::operator=(Generator&&) noexcept = default;
Generator::~Generator() = default;

Result<Generator> Generator::Make(LoadedModel& model) {
  Result<std::unique_ptr<SequenceRunner>> runner = SequenceRunner::Make(model);
  if (!runner) return Forward(runner);
  return Generator(model, *std::move(runner));
}

Result<> Generator::CheckIds(const std::vector<TokenId>& tokens) const {
  const int64_t vocab_size = model_->model->spec().vocab_size;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < vocab_size) continue;
    return Fail(ErrorCode::kInvalid,
                fmt::format("token {} of the prompt is {}; the vocabulary has the ids 0..{}", i,
                            tokens[i], vocab_size - 1));
  }
  return {};
}

Result<StopRules> Generator::RulesFor(const GenerationRequest& request) const {
  const int64_t vocab_size = model_->model->spec().vocab_size;
  const std::span<const TokenId> ends = model_->tokenizer->EndTokens();
  StopRules rules{.end_tokens = {ends.begin(), ends.end()},
                  .ignore_end_tokens = request.ignore_end_tokens,
                  .max_tokens = request.max_tokens,
                  .max_context = model_->context_tokens};
  if (Result<> valid = Validate(request.sampling, vocab_size); !valid) return Forward(valid);
  if (Result<> valid = Validate(rules, vocab_size); !valid) return Forward(valid);
  if (request.prompt.empty()) return Fail(ErrorCode::kInvalid, "the prompt is empty");
  if (Result<> valid = CheckIds(request.prompt); !valid) return Forward(valid);
  if (Result<> fits = CheckPromptFits(rules, std::ssize(request.prompt)); !fits) {
    return Forward(fits);
  }
  return rules;
}

Result<GenerationResult> Generator::Generate(const GenerationRequest& request,
                                             GenerationObserver& observer,
                                             const std::atomic<bool>& cancel) {
  Result<StopRules> rules = RulesFor(request);
  if (!rules) return Forward(rules);
  Result<StopMatcher> matcher = StopMatcher::Make(request.stop_strings);
  if (!matcher) return Forward(matcher);
  return Generation({.request = request,
                     .rules = *rules,
                     .observer = observer,
                     .tokenizer = *model_->tokenizer,
                     .runner = *runner_,
                     .sampler = *sampler_,
                     .cancel = cancel},
                    *std::move(matcher))
      .Run();
}

Result<> Generator::Logits(
    const std::vector<TokenId>& tokens, const std::vector<int64_t>& positions,
    const std::function<void(int64_t position, std::span<const float> logits)>& visit,
    const std::atomic<bool>& cancel) {
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
                  fmt::format("position {}: positions must ascend and be below the {} tokens",
                              position, count));
    }
    previous = position;
  }
  runner_->Reset();
  runner_->Start(tokens);
  auto next = positions.begin();
  while (runner_->ledger().num_pending() > 0) {
    const int64_t first = runner_->ledger().computed;
    const int64_t end = first + runner_->NextChunkTokens();
    SequenceRunner::Chunk chunk{
        .phase = Phase::kPrefill, .logits = LogitRows::kList, .logit_rows = {}};
    for (; next != positions.end() && *next < end; ++next) {
      chunk.logit_rows.push_back(static_cast<int32_t>(*next - first));
    }
    if (chunk.logit_rows.empty()) chunk.logits = LogitRows::kNone;
    const auto pass_on = [&](const RowLogits& row) { visit(first + row.row, row.logits); };
    if (Result<> step = runner_->ComputeChunk(chunk, pass_on, {.cancel = cancel}); !step) {
      return step;
    }
  }
  return {};
}

void Generator::Reset() {
  runner_->Reset();
}

Result<> Generator::SaveCache(const std::string& path,
                              const SavedSequenceProgress& progress) const {
  if (cached_tokens() == 0) {
    return Fail(ErrorCode::kInvalid, path + ": nothing was computed that could be saved");
  }
  return runner_->Save(path, progress);
}

Result<> Generator::LoadCache(const std::string& path, const SavedSequenceProgress& progress) {
  return runner_->Load(path, progress);
}

int64_t Generator::cached_tokens() const {
  return runner_->ledger().computed;
}

}  // namespace baton
