// One sequence: its ledger, its blocks, and the steps that let computed catch up with known.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/loaded_model.h"
#include "forward/step_forward.h"
#include "kv/block_pool.h"
#include "kv/block_table.h"
#include "kv/saved_sequence.h"
#include "step/request.h"
#include "step/step_plan.h"

namespace baton {

// Not movable: the block table holds the pool's address.
// Threads: one at a time.
class SequenceRunner {
 public:
  // Requires: `model` outlives the runner.
  // Errors: exhausted.
  static Result<std::unique_ptr<SequenceRunner>> Make(LoadedModel& model);

  // Makes `tokens` the prompt of a new request. The longest prefix of them that is cached stays so,
  // but for the last token, whose logits will be wanted.
  // Requires: tokens is not empty, ids are in the vocabulary, and they fit into the context.
  void Start(const std::vector<TokenId>& tokens);

  // Adds a generated token to the known ones.
  void Push(TokenId token) { ledger_.known.push_back(token); }

  // Computes the next chunk of pending tokens; `visit` sees the logits that `logits` asks for.
  // `logit_rows` are the chunk's for kList, else empty.
  // Requires: tokens are pending.
  // Errors: cancelled or exhausted; nothing is then counted as computed.
  // Memory: decode steps allocate nothing once the context was reserved by Start.
  struct Chunk {
    Phase phase = Phase::kPrefill;
    LogitRows logits = LogitRows::kNone;
    std::vector<int32_t> logit_rows;
  };
  Result<> ComputeChunk(const Chunk& chunk, LogitVisitor visit, const StepControl& control);

  // Tokens that the next ComputeChunk takes.
  int64_t NextChunkTokens() const;

  const Request& ledger() const { return ledger_; }
  // Memory of the blocks that the sequence holds. Units: bytes.
  int64_t kv_bytes() const { return static_cast<int64_t>(pool_.owned_bytes()); }

  // Forgets the sequence and gives its blocks back.
  void Reset();

  // Saves the tokens that are computed, and their blocks (kv/saved_sequence.h). Requires: there are
  // any. Errors: internal.
  Result<> Save(const std::string& path, const SavedSequenceProgress& progress) const;

  // Makes a saved sequence this one: its tokens are known and computed.
  // Errors: as SavedSequence::Open and ReadBlock; corrupt (ids outside the vocabulary); exhausted.
  // Then the sequence is empty.
  Result<> Load(const std::string& path, const SavedSequenceProgress& progress);

 private:
  struct Options {
    int64_t context_tokens;
    int64_t chunk_tokens;
    int64_t vocab_size;
    Hash128 kv_key;
  };
  SequenceRunner(BlockPool pool, const Options& options);
  SavedSequenceKind Kind() const {
    return {.key = options_.kv_key, .block_bytes = pool_.layout().block_bytes()};
  }
  Result<> LoadInto(const SavedSequence& saved, const SavedSequenceProgress& progress);

  Options options_;
  BlockPool pool_;
  BlockTable table_;
  std::unique_ptr<StepForward> forward_;
  Request ledger_;
  StepPlan plan_;  // of the step at work; kept for its memory
};

}  // namespace baton
