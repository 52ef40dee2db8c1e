// When a generation ends, apart from stop strings (stop_matcher.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace baton {

// Why a generation ended.
enum class StopReason {
  kEndToken,     // the model chose one of the file's end tokens
  kStopString,   // a stop string was completed
  kLength,       // as many tokens as were allowed
  kContextFull,  // prompt and answer fill the context
  kCancelled,    // the caller no longer wants it
  kDeadline,     // the time that the caller allowed ran out
};

// For people and reports: "end-token", "stop-string", "length", "context-full", "cancelled",
// "deadline".
std::string_view StopReasonName(StopReason reason);

// The limits of one generation.
struct StopRules {
  std::vector<TokenId> end_tokens;    // all of the file's
  bool ignore_end_tokens = false;     // go on through them
  std::optional<int64_t> max_tokens;  // generated tokens; 0 gives none; nothing: no limit
  int64_t max_context = 0;            // tokens of prompt and answer together
};

// How far a generation has come.
struct GenerationLength {
  int64_t num_generated = 0;
  int64_t num_known = 0;  // prompt and generated
};

// Errors: invalid: max_tokens below 0, max_context below 1, an end token outside the vocabulary.
Result<> Validate(const StopRules& rules, int64_t vocab_size);

// Checks that a prompt leaves room for at least one token.
// Errors: invalid, with both numbers.
Result<> CheckPromptFits(const StopRules& rules, int64_t num_prompt);

// Why no further token may be generated, if so. To be asked before each token, the first included.
std::optional<StopReason> StopBeforeNext(const StopRules& rules, const GenerationLength& length);

// Whether this token, just chosen, ends the generation. It is then no part of the answer.
bool EndsGeneration(const StopRules& rules, TokenId token);

}  // namespace baton
