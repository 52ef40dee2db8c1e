// Reads whole prompts, each from an empty cache and by a policy of its own: the step that all
// evaluations repeat.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/loaded_model.h"
#include "forward/step_forward.h"
#include "kv/block_pool.h"

namespace baton {

// One prompt, and what is wanted of it.
struct PromptReading {
  std::span<const TokenId> tokens;          // at least one
  const SparsePolicy* policy = nullptr;     // null: dense
  std::span<const int64_t> positions = {};  // with logits, ascending
  PrefillReport* report = nullptr;          // what was kept and how long it took; null for none
  TileObserver* observer = nullptr;         // null for none
};

// Threads: one at a time, and alone with the model's pool.
class PromptReader {
 public:
  // Called with each wanted position, ascending. Shapes: logits: [vocab_size] f32.
  using Visit = std::function<void(int64_t position, std::span<const float> logits)>;
  // Called after every layer of every chunk with the tokens done so far: a layer of a chunk counts
  // as its share of the chunk's tokens.
  using OnTokens = std::function<void(int64_t done_tokens)>;

  // For prompts of at most max_tokens tokens, in chunks as the model was opened for.
  // Requires: the model outlives the reader; max_tokens >= 1.
  // Errors: exhausted (memory for the cache).
  static Result<PromptReader> Make(LoadedModel& model, int64_t max_tokens);

  // Returns the seconds of all steps, without those of `visit`. Chunks are whole tiles, so the bits
  // are those of any other way to read the prompt.
  // Errors: invalid (a prompt that is empty or too long, a token outside the vocabulary, a policy
  // that the model cannot have), exhausted, cancelled.
  Result<double> Read(const PromptReading& reading, const Visit& visit, const OnTokens& on_tokens,
                      const std::atomic<bool>& cancel);

 private:
  PromptReader(LoadedModel& model, int64_t max_tokens, BlockPool pool)
      : model_(&model),
        max_tokens_(max_tokens),
        pool_(std::make_unique<BlockPool>(std::move(pool))) {}

  int64_t ChunkTokens(const SparsePolicy* policy) const;

  LoadedModel* model_;
  int64_t max_tokens_;
  std::unique_ptr<BlockPool> pool_;
};

}  // namespace baton
