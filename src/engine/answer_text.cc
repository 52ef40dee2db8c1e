#include "engine/answer_text.h"

#include <utility>

namespace baton {

Result<AnswerText> AnswerText::Make(const Tokenizer& tokenizer,
                                    std::span<const std::string> stop_strings) {
  Result<StopMatcher> matcher = StopMatcher::Make(stop_strings);
  if (!matcher) return Forward(matcher);
  return AnswerText(tokenizer, *std::move(matcher));
}

AnswerText::AnswerText(const Tokenizer& tokenizer, StopMatcher matcher)
    : tokenizer_(&tokenizer),
      detokenizer_(tokenizer, {.skip_special = true, .starts_text = false}),
      matcher_(std::move(matcher)) {}

std::string_view AnswerText::Push(TokenId token) {
  // A model may have more rows than its vocabulary has tokens; those spell nothing.
  if (!tokenizer_->IsToken(token)) return {};
  return matcher_.Feed(detokenizer_.Push(token));
}

std::string_view AnswerText::Finish() {
  last_.clear();
  if (!matcher_.matched()) last_ += matcher_.Feed(detokenizer_.Finish());
  last_ += matcher_.Finish();
  return last_;
}

}  // namespace baton
