// The text of an answer while its tokens arrive: whole characters, up to the first stop string.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "sample/stop_matcher.h"
#include "text/detokenizer.h"

namespace baton {

// Threads: one at a time.
class AnswerText {
 public:
  struct Parts {
    const Tokenizer& tokenizer;  // outlives it
    std::span<const std::string> stop_strings;
    std::vector<TokenId> shown_tokens;  // control tokens whose names are text
  };
  // Errors: as StopMatcher::Make.
  static Result<AnswerText> Make(Parts parts);

  // Takes the next token; returns what became certain. The view is valid until the next call.
  std::string_view Push(TokenId token);
  // Ends the text: what was held back. Valid until the next call.
  std::string_view Finish();

  // The stop string that was found, as its place among those given.
  std::optional<int64_t> match() const { return matcher_.match(); }

 private:
  AnswerText(Parts parts, StopMatcher matcher);

  const Tokenizer* tokenizer_;
  std::vector<TokenId> shown_tokens_;
  Detokenizer detokenizer_;
  StopMatcher matcher_;
  std::string last_;  // what Finish returns
};

}  // namespace baton
