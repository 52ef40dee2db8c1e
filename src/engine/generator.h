// One request at a time, on the thread of the caller: the engine for `run`, `chat` and `eval`.
//
// All requests of a generator are one session (engine/generation.h): the cache of the sequence
// stays after the end, so that the next turn of a chat prefills only what is new.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/generation.h"
#include "engine/loaded_model.h"
#include "kv/saved_sequence.h"

namespace baton {

// Threads: one at a time.
class Generator {
 public:
  // Computes as the model's LoadOptions say.
  // Requires: `model` outlives the generator.
  // Errors: exhausted (blocks or workspace).
  static Result<Generator> Make(LoadedModel& model);

  // Runs one request to its end. `cancel` is looked at between tasks; once it is true the
  // generation ends with StopReason::kCancelled and what was generated so far.
  // Requires: the request has no session of its own.
  // Errors: invalid (empty prompt, id outside the vocabulary, prompt that leaves no room for one
  // token: with both numbers), exhausted.
  Result<GenerationResult> Generate(const GenerationRequest& request, GenerationObserver& observer,
                                    const std::atomic<bool>& cancel);

  // As Engine::Logits. What is cached stays, as far as there is room.
  Result<> Logits(const std::vector<TokenId>& tokens, const std::vector<int64_t>& positions,
                  const std::function<void(int64_t position, std::span<const float> logits)>& visit,
                  const std::atomic<bool>& cancel);

  // Forgets the sequence and gives its blocks back.
  void Reset();

  // Saves the cache of the sequence to a file, and makes a saved one this sequence's, so that a
  // prompt that begins with its tokens computes only the rest. Progress: blocks.
  // Errors: as Engine::SaveSession and LoadSession.
  Result<> SaveCache(const std::string& path, const SavedSequenceProgress& progress) const;
  Result<> LoadCache(const std::string& path, const SavedSequenceProgress& progress);

  // Tokens whose keys and values are in the cache.
  int64_t cached_tokens() const;

 private:
  explicit Generator(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}

  std::unique_ptr<Engine> engine_;
};

}  // namespace baton
