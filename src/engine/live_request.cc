#include "engine/live_request.h"

#include <algorithm>
#include <utility>

namespace baton {
namespace {

double SecondsBetween(int64_t begin_ns, int64_t end_ns) {
  return static_cast<double>(end_ns - begin_ns) * 1e-9;
}

int64_t MaxKnown(const GenerationRequest& request, const StopRules& rules) {
  const int64_t num_prompt = std::ssize(request.prompt);
  if (!rules.max_tokens || *rules.max_tokens >= rules.max_context - num_prompt) {
    return rules.max_context;
  }
  // One more where nothing is generated, but the prompt is computed.
  return num_prompt + std::max<int64_t>(*rules.max_tokens, 1);
}

}  // namespace

LiveRequest::LiveRequest(Parts parts)
    : parts_(std::move(parts)),
      num_prompt_(std::ssize(parts_.request.prompt)),
      max_known_(MaxKnown(parts_.request, parts_.rules)) {
  result_.figures.prompt_tokens = num_prompt_;
  if (!parts_.states_prefill) return;
  result_.figures.prefill_policy = parts_.policy ? PolicyText(*parts_.policy) : "dense";
}

void LiveRequest::NoteStart(int64_t now_ns, int64_t cached_tokens, TokenId first_token) {
  started_ns_ = now_ns;
  result_.figures.cached_tokens = cached_tokens;
  if (!parts_.request.prompt_logprobs) return;
  scores_.resize(static_cast<size_t>(num_prompt_));
  scores_.front().id = first_token;
}

void LiveRequest::TakeScore(int64_t position, SampledToken score) {
  scores_[static_cast<size_t>(position)] = std::move(score);
}

void LiveRequest::TellPrompt() {
  if (!scores_.empty()) parts_.observer->OnPrompt(std::exchange(scores_, {}));
}

void LiveRequest::TellPrefill(int64_t computed_tokens) {
  NoteRead(computed_tokens);
  const int64_t cached = result_.figures.cached_tokens;
  if (num_generated() > 0) return;
  parts_.observer->OnPrefill(std::max<int64_t>(computed_tokens - cached, 0), num_prompt_ - cached);
}

std::optional<StopReason> LiveRequest::StopBeforeNext() const {
  return baton::StopBeforeNext(
      parts_.rules, {.num_generated = num_generated(), .num_known = num_prompt_ + num_generated()});
}

std::optional<StopReason> LiveRequest::Accept(const SampledToken& token, const Tokenizer& tokenizer,
                                              int64_t now_ns) {
  last_token_ns_ = now_ns;
  if (first_token_ns_ == 0) first_token_ns_ = now_ns;
  if (EndsGeneration(parts_.rules, token.id)) {
    result_.stopped_by = tokenizer.Piece(token.id);
    result_.end_token = token;
    return StopReason::kEndToken;
  }
  result_.tokens.push_back(token);
  parts_.observer->OnToken(token);
  Emit(parts_.text.Push(token.id));
  if (parts_.text.match().has_value()) return StopReason::kStopString;
  return StopBeforeNext();
}

void LiveRequest::Emit(std::string_view text) {
  if (text.empty()) return;
  result_.text += text;
  parts_.observer->OnText(text);
}

void LiveRequest::Finish(StopReason reason, const End& end) {
  Emit(parts_.text.Finish());
  if (const std::optional<int64_t> match = parts_.text.match()) {
    reason = StopReason::kStopString;
    result_.stopped_by = parts_.request.stop_strings[static_cast<size_t>(*match)];
  }
  result_.stop_reason = reason;
  GenerationFigures& figures = result_.figures;
  figures.generated_tokens = num_generated();
  figures.preemptions = end.preemptions;
  if (started_ns_ != 0) figures.queue_seconds = SecondsBetween(parts_.submitted_ns, started_ns_);
  if (first_token_ns_ != 0) {
    figures.first_token_seconds = SecondsBetween(parts_.submitted_ns, first_token_ns_);
    figures.prefill_seconds = SecondsBetween(started_ns_, first_token_ns_);
    figures.decode_seconds = SecondsBetween(first_token_ns_, last_token_ns_);
  }
  figures.kv_bytes = end.kv_bytes;
  std::exchange(parts_.observer, nullptr)->OnDone(std::move(result_));
}

void LiveRequest::EndWith(Error error) {
  std::exchange(parts_.observer, nullptr)->OnDone(tl::unexpected(std::move(error)));
}

}  // namespace baton
