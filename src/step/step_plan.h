// What one step of the model computes: plain data from the scheduler to the forward pass.
//
// A step takes rows of several sequences and of both phases. A row is one token at one position;
// the rows of a step are those of its sequences, one sequence after the other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace baton {

// Tokens that a block table entry stands for; equals the KV block of tensor/kv_record.h.
inline constexpr int kStepBlockTokens = 64;

// What a sequence's rows are for.
enum class Phase {
  kPrefill,  // a chunk of known tokens
  kDecode,   // the one token that was sampled last
};

// Which of a sequence's rows yield logits.
enum class LogitRows {
  kNone,
  kLast,
  kAll,
  kList,  // those in SequenceStep::logit_rows
};

std::string_view PhaseName(Phase phase);
std::string_view LogitRowsName(LogitRows rows);

// The part of one sequence in a step: tokens at positions
// [first_position, first_position + tokens.size()).
struct SequenceStep {
  int32_t slot = 0;             // the sequence's place among the engine's, stable between steps
  int64_t first_position = 0;   // tokens of this sequence that are in the cache already
  std::vector<TokenId> tokens;  // not empty; one if decoding
  std::vector<BlockId> blocks;  // the sequence's table, from position 0, to at least the end
  Phase phase = Phase::kPrefill;
  // Tokens of the whole prompt: its rows follow the model's prefill policy, rows from there on are
  // dense. 0: all are dense.
  int64_t prompt_tokens = 0;
  LogitRows logits = LogitRows::kNone;
  std::vector<int32_t> logit_rows;  // for kList: indices into tokens, ascending

  int64_t num_rows() const { return static_cast<int64_t>(tokens.size()); }
  // The position after the last row: the length of the sequence after this step.
  int64_t end_position() const { return first_position + num_rows(); }
  int64_t num_logit_rows() const;
  // The index into tokens of the nth row with logits. Requires: 0 <= n < num_logit_rows().
  int64_t LogitRow(int64_t n) const;

  friend bool operator==(const SequenceStep&, const SequenceStep&) = default;
};

// One step.
struct StepPlan {
  std::vector<SequenceStep> sequences;

  int64_t num_rows() const;
  int64_t num_logit_rows() const;

  friend bool operator==(const StepPlan&, const StepPlan&) = default;
};

// What a plan may ask for.
struct StepLimits {
  int32_t max_sequences = 0;  // slots are below this
  int64_t max_rows = 0;       // rows of a step, all sequences together
  int64_t max_context = 0;    // positions are below this
  int64_t vocab_size = 0;     // token ids are below this
  int64_t num_blocks = 0;     // block ids are below this
};

// Checks a plan: sizes within the limits, ids in range, each slot once, tables long enough, logit
// rows in order, and a block written in this step held by no other table (a shared block is only
// ever read).
// Errors: invalid, naming the sequence's slot, the value and the limit.
// Memory: allocates only to describe an error.
Result<> Validate(const StepPlan& plan, const StepLimits& limits);

// One line per sequence, for people: slot, phase, positions, tokens, blocks, rows with logits. Long
// lists are cut and say so.
std::string ToString(const StepPlan& plan);

}  // namespace baton
