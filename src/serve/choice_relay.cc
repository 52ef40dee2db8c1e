#include "serve/choice_relay.h"

#include <utility>

#include "text/unicode.h"

namespace baton {
namespace {

// Progress is told no oftener than somebody can watch it.
constexpr int64_t kProgressNs = 100'000'000;

}  // namespace

ChoiceRelay::ChoiceRelay(std::shared_ptr<Answer> answer, int64_t choice, AnswerHost& host)
    : answer_(std::move(answer)),
      choice_(choice),
      host_(host),
      prompt_tokens_(std::ssize(
          answer_->call().prompts[static_cast<size_t>(answer_->call().PromptOf(choice))])) {}

void ChoiceRelay::OnPrefill(int64_t done_tokens, int64_t total_tokens) {
  if (!answer_->call().fields.return_progress || !answer_->call().fields.stream) return;
  const int64_t now = host_.clock.NowNs();
  if (done_tokens < total_tokens && now - last_progress_ns_ < kProgressNs) return;
  last_progress_ns_ = now;
  const int64_t cached = prompt_tokens_ - total_tokens;
  const PromptProgress progress{
      .total_tokens = prompt_tokens_, .cached_tokens = cached, .read_tokens = cached + done_tokens};
  host_.post(
      [answer = answer_, choice = choice_, progress] { answer->OnProgress(choice, progress); });
}

void ChoiceRelay::OnPrompt(std::vector<SampledToken> tokens) {
  host_.post([answer = answer_, choice = choice_, tokens = std::move(tokens)]() mutable {
    answer->OnPrompt(choice, std::move(tokens));
  });
}

void ChoiceRelay::OnToken(const SampledToken& token) {
  const int64_t now = host_.clock.NowNs();
  if (last_token_ns_ != 0) {
    host_.metrics.NoteTokenGap(static_cast<double>(now - last_token_ns_) * 1e-9);
  }
  last_token_ns_ = now;
  if (token.has_logprobs) tokens_.push_back(token);
}

void ChoiceRelay::OnText(std::string_view text) {
  text_ += ReplaceInvalidUtf8(text);
  if (answer_->call().fields.stream) HandOver();
}

void ChoiceRelay::OnDone(Result<GenerationResult> result) {
  // Beside an echo all that was computed has its log-probability, the last token as well.
  if (result && result->end_token && answer_->call().prompt_logprobs) {
    tokens_.push_back(*std::move(result->end_token));
  }
  HandOver();
  // The tokens were handed over as they came; what is left is the reason and the figures.
  if (result) {
    result->tokens.clear();
    result->text.clear();
  }
  host_.post([answer = answer_, choice = choice_, result = std::move(result)] {
    answer->OnChoiceDone(choice, result);
  });
}

void ChoiceRelay::HandOver() {
  if (text_.empty() && tokens_.empty()) return;
  host_.post([answer = answer_, choice = choice_, text = std::exchange(text_, {}),
              tokens = std::exchange(tokens_, {})]() mutable {
    answer->OnText(choice, text, std::move(tokens));
  });
}

}  // namespace baton
