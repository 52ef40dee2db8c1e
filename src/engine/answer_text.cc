#include "engine/answer_text.h"

#include <algorithm>
#include <utility>

namespace baton {

Result<AnswerText> AnswerText::Make(Parts parts) {
  Result<StopMatcher> matcher = StopMatcher::Make(parts.stop_strings);
  if (!matcher) return Forward(matcher);
  return AnswerText(std::move(parts), *std::move(matcher));
}

AnswerText::AnswerText(Parts parts, StopMatcher matcher)
    : tokenizer_(&parts.tokenizer),
      shown_tokens_(std::move(parts.shown_tokens)),
      detokenizer_(parts.tokenizer, {.skip_special = true, .starts_text = false}),
      matcher_(std::move(matcher)) {}

std::string_view AnswerText::Push(TokenId token) {
  // A model may have more rows than its vocabulary has tokens; those spell nothing.
  if (!tokenizer_->IsToken(token)) return {};
  if (std::find(shown_tokens_.begin(), shown_tokens_.end(), token) == shown_tokens_.end()) {
    return matcher_.Feed(detokenizer_.Push(token));
  }
  return matcher_.Feed(detokenizer_.Finish() + std::string(tokenizer_->Piece(token)));
}

std::string_view AnswerText::Finish() {
  last_.clear();
  if (!matcher_.matched()) last_ += matcher_.Feed(detokenizer_.Finish());
  last_ += matcher_.Finish();
  return last_;
}

}  // namespace baton
