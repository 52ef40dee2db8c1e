// What a caller asks of the engine, and what it is told: the words of every generation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/ids.h"
#include "base/result.h"
#include "engine/prefill_wish.h"
#include "forward/prefill.h"
#include "sample/sampler.h"
#include "sample/sampling_params.h"
#include "sample/stop_rules.h"

namespace baton {

struct GenerationRequest {
  // Ids of the whole prompt, with what the vocabulary wants in front.
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  // The log-probabilities of the prompt's tokens, too, each with sampling.num_top_logprobs
  // alternatives: the whole prompt is then computed, whatever the cache has, and max_tokens 0 asks
  // for nothing else. Requires: sampling.num_top_logprobs.
  bool prompt_logprobs = false;
  // Nothing: until an end token, a stop string or the end of the context.
  std::optional<int64_t> max_tokens;
  // Text before the earliest match is the answer; no part of a match is ever emitted.
  std::vector<std::string> stop_strings;
  // How the prompt is read. Part of the answer's name.
  PrefillWish prefill;
  // Goes on through end tokens.
  bool ignore_end_tokens = false;
  // Control tokens whose names are part of the text; those of others are not.
  std::vector<TokenId> shown_tokens;
  // Higher ones are admitted first and preempted last.
  int32_t priority = 0;
  // The request ends with StopReason::kDeadline so many seconds after it was submitted.
  std::optional<double> deadline_seconds;
  // Requests share cached prefixes only with those of the same salt.
  Hash128 cache_salt;
  // Not 0: the sequence is kept under this number when the request ends, and the next request of
  // the same number goes on from it, down to the token. Prefixes by content need no session.
  uint64_t session = 0;
  // What the caller calls it, for lists of requests.
  std::string label;
};

// Figures of both phases. Units: seconds by a monotonic clock.
struct GenerationFigures {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of prompt_tokens, found in the cache
  int64_t generated_tokens = 0;
  int64_t preemptions = 0;         // how often its blocks were taken and computed again
  double queue_seconds = 0;        // from the call to the first step
  double first_token_seconds = 0;  // from the call to the first token: all that was done for it
  double prefill_seconds = 0;      // of it, from the first step on
  double decode_seconds = 0;       // from the first token to the last
  int64_t kv_bytes = 0;            // blocks in use at the end
  // How the prompt was read: "dense" or a policy's text. Nothing if nobody asked for other than
  // dense reading.
  std::optional<std::string> prefill_policy = std::nullopt;
  // What a sparse prefill kept; nothing if all of it was dense.
  std::optional<PrefillReport> prefill = std::nullopt;
};

struct GenerationResult {
  std::vector<SampledToken> tokens;  // without the end token that stopped it, if one did
  std::string text;
  // The end token that stopped it, if one did.
  std::optional<SampledToken> end_token = std::nullopt;
  StopReason stop_reason = StopReason::kLength;
  // The stop string or the piece of the end token, for reports; else empty.
  std::string stopped_by;
  GenerationFigures figures;
};

// What a generation tells while it runs. Called on the thread that runs the engine's steps, which
// waits meanwhile: an observer is quick, and hands on what takes long.
class GenerationObserver {
 public:
  virtual ~GenerationObserver() = default;
  // Prompt tokens computed so far, of those that were not cached.
  virtual void OnPrefill(int64_t done_tokens, int64_t total_tokens) = 0;
  // The prompt's tokens with their raw log-probabilities, but for the first, which follows nothing.
  // Once, before the first OnToken, if the request has prompt_logprobs.
  virtual void OnPrompt(std::vector<SampledToken> tokens) { (void)tokens; }
  // A token was chosen; its text may come later, joined with that of others.
  virtual void OnToken(const SampledToken& token) = 0;
  // Text that is certain: whole characters, no part of a stop string. The pieces join to
  // GenerationResult::text.
  virtual void OnText(std::string_view text) = 0;
};

// An observer that also hears the end, exactly once, as the last call: the result, or why there is
// none.
class RequestObserver : public GenerationObserver {
 public:
  virtual void OnDone(Result<GenerationResult> result) = 0;
};

}  // namespace baton
