// A request inside the engine, from Submit to OnDone: everything but its tokens and blocks, which
// are the scheduler's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/answer_text.h"
#include "engine/generation.h"
#include "sample/stop_rules.h"
#include "text/tokenizer.h"

namespace baton {

// Threads: one at a time.
class LiveRequest {
 public:
  struct Parts {
    uint64_t id;
    GenerationRequest request;
    StopRules rules;
    AnswerText text;
    std::optional<SparsePolicy> policy;  // of the prompt (engine/prompt_policy.h)
    bool states_prefill;                 // whether the answer names it
    std::shared_ptr<RequestObserver> observer;
    int64_t submitted_ns;
  };
  // Requires: the request is valid.
  explicit LiveRequest(Parts parts);

  uint64_t id() const { return parts_.id; }
  const GenerationRequest& request() const { return parts_.request; }
  // The request's own prompt, for who computes it. Once.
  std::vector<TokenId> TakePrompt() { return std::move(parts_.request.prompt); }
  // The length of prompt and answer that is not exceeded.
  int64_t max_known() const { return max_known_; }
  int64_t num_prompt() const { return num_prompt_; }
  int64_t num_generated() const { return std::ssize(result_.tokens); }
  // How the prompt is read; nothing: densely.
  const std::optional<SparsePolicy>& policy() const { return parts_.policy; }
  int64_t submitted_ns() const { return parts_.submitted_ns; }

  // Whether it waits for the disk before it goes to the scheduler.
  bool awaits_disk() const { return awaits_disk_; }
  void SetAwaitsDisk(bool awaits_disk) { awaits_disk_ = awaits_disk; }

  // Notes that the first step with the request begins, with so many tokens found in the cache and
  // this one in front.
  void NoteStart(int64_t now_ns, int64_t cached_tokens, TokenId first_token);
  bool has_started() const { return started_ns_ != 0; }
  // Takes in what a token of the prompt has for a log-probability. Requires: has_started.
  void TakeScore(int64_t position, SampledToken score);
  // Tells the prompt's log-probabilities, once, if they were asked for. Requires: all are taken in.
  void TellPrompt();
  // Tells how many of the prompt's tokens are computed, until the first token is there.
  void TellPrefill(int64_t computed_tokens);
  // Tokens in the cache, with those of the step at work by its layers. Threads: any may read.
  int64_t read_tokens() const { return read_tokens_.load(std::memory_order_relaxed); }
  void NoteRead(int64_t computed_tokens) {
    read_tokens_.store(computed_tokens, std::memory_order_relaxed);
  }

  // Where the steps of a sparse prefill report. Null if there is none.
  PrefillReport* prefill_report() {
    return result_.figures.prefill ? &*result_.figures.prefill : nullptr;
  }
  // Makes it, for so many layers.
  void ReportPrefill(int num_layers) {
    result_.figures.prefill.emplace().layers.resize(static_cast<size_t>(num_layers));
  }

  // Why no further token may be generated, if so.
  std::optional<StopReason> StopBeforeNext() const;
  // Takes a chosen token into the answer and tells of it. Returns the reason to stop, if it is one;
  // an end token is no part of the answer.
  std::optional<StopReason> Accept(const SampledToken& token, const Tokenizer& tokenizer,
                                   int64_t now_ns);

  // What the books say at the end.
  struct End {
    int64_t kv_bytes = 0;
    int64_t preemptions = 0;
  };
  // The last word: the result, or why there is none.
  void Finish(StopReason reason, const End& end);
  void EndWith(Error error);

 private:
  void Emit(std::string_view text);

  Parts parts_;
  int64_t num_prompt_;
  int64_t max_known_;
  GenerationResult result_;
  std::vector<SampledToken> scores_;  // of the prompt; empty: none are wanted, or they were told
  bool awaits_disk_ = false;
  std::atomic<int64_t> read_tokens_ = 0;
  int64_t started_ns_ = 0;
  int64_t first_token_ns_ = 0;
  int64_t last_token_ns_ = 0;
};

}  // namespace baton
