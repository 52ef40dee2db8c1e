// Samples the rows of a step in parallel, or says how probable the known next token was: each with
// the settings and the history of its own request, so neither order nor neighbours show.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "sample/sampler.h"
#include "threads/pool.h"

namespace baton {

// A row to sample, and where the choice goes.
struct SampleTask {
  std::span<const float> logits;
  const SamplingParams* params;
  TokenHistory history;
  std::optional<Result<SampledToken>>* token;
  // The token that follows, where it is known: scored, not sampled.
  std::optional<TokenId> known = std::nullopt;
};

// Threads: one at a time.
class RowSampler {
 public:
  // Requires: the pool outlives it.
  RowSampler(ThreadPool& pool, int64_t vocab_size);

  // Memory that samplers take when made. Units: bytes.
  static uint64_t BufferBytes(int num_threads, int64_t vocab_size);

  // Fills every task's token.
  // Memory: as Sampler::Sample.
  void Run(std::span<const SampleTask> tasks);

 private:
  ThreadPool* pool_;
  std::vector<std::unique_ptr<Sampler>> samplers_;  // one for each worker
};

}  // namespace baton
