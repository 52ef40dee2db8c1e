// One sequence at a time: prefill what is new of a prompt, then decode until something says stop.
//
// Life of one Generate:
//  1. match: the longest prefix of the prompt that is in the cache is kept, the rest is dropped;
//     at least the prompt's last token is computed again, since its logits are needed.
//  2. prefill: chunks of the prompt, until computed = known.
//  3. decode: sample, emit, compute the new token; until a stop rule holds.
// The cache of the sequence stays after the end, so that the next turn of a chat prefills only what
// is new.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/loaded_model.h"
#include "kv/saved_sequence.h"
#include "sample/sampler.h"
#include "sample/sampling_params.h"
#include "sample/stop_rules.h"

namespace baton {

struct GenerationRequest {
  // Ids of the whole prompt, with what the vocabulary wants in front.
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  // Nothing: until an end token, a stop string or the end of the context.
  std::optional<int64_t> max_tokens;
  // Text before the earliest match is the answer; no part of a match is ever emitted.
  std::vector<std::string> stop_strings;
  // Goes on through end tokens.
  bool ignore_end_tokens = false;
};

// What a generation tells while it runs. Called on the thread that called Generate.
class GenerationObserver {
 public:
  virtual ~GenerationObserver() = default;
  // Prompt tokens computed so far, of those that were not cached.
  virtual void OnPrefill(int64_t done_tokens, int64_t total_tokens) = 0;
  // A token was chosen; its text may come later, joined with that of others.
  virtual void OnToken(const SampledToken& token) = 0;
  // Text that is certain: whole characters, no part of a stop string. The pieces join to
  // GenerationResult::text.
  virtual void OnText(std::string_view text) = 0;
};

// Figures of both phases. Units: seconds by a monotonic clock.
struct GenerationFigures {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of prompt_tokens, found in the cache
  int64_t generated_tokens = 0;
  double first_token_seconds = 0;  // from the call to the first token: all that was computed for it
  double prefill_seconds = 0;
  double decode_seconds = 0;  // from the first token to the last
  int64_t kv_bytes = 0;       // blocks in use at the end
};

struct GenerationResult {
  std::vector<SampledToken> tokens;  // without the end token that stopped it, if one did
  std::string text;
  StopReason stop_reason = StopReason::kLength;
  // The stop string or the piece of the end token, for reports; else empty.
  std::string stopped_by;
  GenerationFigures figures;
};

class SequenceRunner;

// Threads: one at a time.
class Generator {
 public:
  // Computes as the model's LoadOptions say.
  // Requires: `model` outlives the generator.
  // Errors: exhausted (blocks or workspace).
  static Result<Generator> Make(LoadedModel& model);
  Generator(Generator&&) noexcept;
  Generator& operator=(Generator&&) noexcept;
  ~Generator();

  // Runs one request to its end. `cancel` is looked at between tasks; once it is true the
  // generation ends with StopReason::kCancelled and what was generated so far.
  // Errors: invalid (empty prompt, id outside the vocabulary, prompt that leaves no room for one
  // token: with both numbers), exhausted.
  Result<GenerationResult> Generate(const GenerationRequest& request, GenerationObserver& observer,
                                    const std::atomic<bool>& cancel);

  // Logits at chosen positions of a sequence, from an empty cache: [positions, vocab_size] to
  // `visit`, positions ascending. For evaluation.
  Result<> Logits(const std::vector<TokenId>& tokens, const std::vector<int64_t>& positions,
                  const std::function<void(int64_t position, std::span<const float> logits)>& visit,
                  const std::atomic<bool>& cancel);

  // Forgets the sequence and gives its blocks back.
  void Reset();

  // Saves the cache of the sequence to a file, and makes a saved one this sequence's, so that a
  // prompt that begins with its tokens computes only the rest. Progress: blocks.
  // Errors: invalid (there is nothing to save), as SequenceRunner::Save and Load.
  Result<> SaveCache(const std::string& path, const SavedSequenceProgress& progress) const;
  Result<> LoadCache(const std::string& path, const SavedSequenceProgress& progress);

  // Tokens whose keys and values are in the cache.
  int64_t cached_tokens() const;

 private:
  Generator(LoadedModel& model, std::unique_ptr<SequenceRunner> runner);
  Result<> CheckIds(const std::vector<TokenId>& tokens) const;
  Result<StopRules> RulesFor(const GenerationRequest& request) const;

  LoadedModel* model_;
  std::unique_ptr<SequenceRunner> runner_;
  std::unique_ptr<Sampler> sampler_;
};

}  // namespace baton
