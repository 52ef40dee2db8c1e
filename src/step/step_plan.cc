#include "step/step_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/check.h"

namespace baton {
namespace {

constexpr size_t kMaxPrintedItems = 8;

int64_t NumBlocksFor(int64_t num_tokens) {
  return (num_tokens + kStepBlockTokens - 1) / kStepBlockTokens;
}

tl::unexpected<Error> Invalid(const SequenceStep& sequence, const std::string& what) {
  return Fail(ErrorCode::kInvalid, fmt::format("step plan, slot {}: {}", sequence.slot, what));
}

Result<> CheckPositions(const SequenceStep& sequence, const StepLimits& limits) {
  if (sequence.slot < 0 || sequence.slot >= limits.max_sequences) {
    return Invalid(sequence, fmt::format("slots are 0..{}", limits.max_sequences - 1));
  }
  if (sequence.tokens.empty()) return Invalid(sequence, "no tokens");
  if (sequence.phase == Phase::kDecode && sequence.num_rows() != 1) {
    return Invalid(sequence, fmt::format("{} tokens to decode, not 1", sequence.num_rows()));
  }
  if (sequence.first_position < 0 || sequence.first_position > limits.max_context ||
      sequence.num_rows() > limits.max_context - sequence.first_position) {
    return Invalid(sequence,
                   fmt::format("{} tokens from position {} leave the context of {}",
                               sequence.num_rows(), sequence.first_position, limits.max_context));
  }
  if (sequence.prompt_tokens < 0 || sequence.prompt_tokens > limits.max_context) {
    return Invalid(sequence, fmt::format("a prompt of {} tokens in a context of {}",
                                         sequence.prompt_tokens, limits.max_context));
  }
  for (const TokenId token : sequence.tokens) {
    if (token < 0 || token >= limits.vocab_size) {
      return Invalid(sequence,
                     fmt::format("token id {} is not in 0..{}", token, limits.vocab_size - 1));
    }
  }
  return {};
}

Result<> CheckBlocks(const SequenceStep& sequence, const StepLimits& limits) {
  const int64_t needed = NumBlocksFor(sequence.end_position());
  const auto held = static_cast<int64_t>(sequence.blocks.size());
  if (held < needed || held > NumBlocksFor(limits.max_context)) {
    return Invalid(sequence,
                   fmt::format("{} blocks for {} tokens, needs {} to {}", held,
                               sequence.end_position(), needed, NumBlocksFor(limits.max_context)));
  }
  for (const BlockId block : sequence.blocks) {
    if (block.index < 0 || block.index >= limits.num_blocks) {
      return Invalid(sequence,
                     fmt::format("block {} is not in 0..{}", block.index, limits.num_blocks - 1));
    }
  }
  return {};
}

Result<> CheckLogits(const SequenceStep& sequence) {
  const auto& rows = sequence.logit_rows;
  if (sequence.logits != LogitRows::kList) {
    if (rows.empty()) return {};
    return Invalid(sequence, fmt::format("a list of logit rows with logits = {}",
                                         LogitRowsName(sequence.logits)));
  }
  if (rows.empty()) return Invalid(sequence, "an empty list of logit rows");
  int64_t previous = -1;
  for (const int32_t row : rows) {
    if (row <= previous || row >= sequence.num_rows()) {
      return Invalid(sequence, fmt::format("logit row {} after {} of {} rows", row, previous,
                                           sequence.num_rows()));
    }
    previous = row;
  }
  return {};
}

// The entries of the table that this step writes to.
std::span<const BlockId> WrittenBlocks(const SequenceStep& sequence) {
  const int64_t first = sequence.first_position / kStepBlockTokens;
  const int64_t end = NumBlocksFor(sequence.end_position());
  return std::span(sequence.blocks).subspan(first, end - first);
}

// Written blocks are few (the rows of a step fill them), so a plain search costs less than a set.
Result<> CheckWritten(const StepPlan& plan, const SequenceStep& writer) {
  for (const BlockId written : WrittenBlocks(writer)) {
    for (const SequenceStep& other : plan.sequences) {
      const auto uses = std::count(other.blocks.begin(), other.blocks.end(), written);
      if (uses == (&other == &writer ? 1 : 0)) continue;
      return Invalid(writer, fmt::format("writes to block {}, which slot {} holds, too",
                                         written.index, other.slot));
    }
  }
  return {};
}

template <typename T>
std::string Shortened(const std::vector<T>& items) {
  std::string text = "[";
  for (size_t i = 0; i < std::min(items.size(), kMaxPrintedItems); ++i) {
    if (i != 0) text += ' ';
    if constexpr (std::is_same_v<T, BlockId>) {
      text += fmt::format("{}", items[i].index);
    } else {
      text += fmt::format("{}", items[i]);
    }
  }
  if (items.size() > kMaxPrintedItems) {
    text += fmt::format(" … {} in all", items.size());
  }
  return text + "]";
}

}  // namespace

std::string_view PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kPrefill:
      return "prefill";
    case Phase::kDecode:
      return "decode";
  }
  return "?";
}

std::string_view LogitRowsName(LogitRows rows) {
  switch (rows) {
    case LogitRows::kNone:
      return "none";
    case LogitRows::kLast:
      return "last";
    case LogitRows::kAll:
      return "all";
    case LogitRows::kList:
      return "list";
  }
  return "?";
}

int64_t SequenceStep::num_logit_rows() const {
  switch (logits) {
    case LogitRows::kNone:
      return 0;
    case LogitRows::kLast:
      return tokens.empty() ? 0 : 1;
    case LogitRows::kAll:
      return num_rows();
    case LogitRows::kList:
      return static_cast<int64_t>(logit_rows.size());
  }
  return 0;
}

int64_t SequenceStep::LogitRow(int64_t n) const {
  CHECK(n >= 0 && n < num_logit_rows());
  if (logits == LogitRows::kLast) return num_rows() - 1;
  return logits == LogitRows::kList ? logit_rows[n] : n;
}

int64_t StepPlan::num_rows() const {
  int64_t rows = 0;
  for (const SequenceStep& sequence : sequences) rows += sequence.num_rows();
  return rows;
}

int64_t StepPlan::num_logit_rows() const {
  int64_t rows = 0;
  for (const SequenceStep& sequence : sequences) rows += sequence.num_logit_rows();
  return rows;
}

Result<> Validate(const StepPlan& plan, const StepLimits& limits) {
  const auto num_sequences = static_cast<int64_t>(plan.sequences.size());
  if (num_sequences > limits.max_sequences) {
    return Fail(ErrorCode::kInvalid, fmt::format("step plan: {} sequences, at most {}",
                                                 num_sequences, limits.max_sequences));
  }
  if (plan.num_rows() > limits.max_rows) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("step plan: {} rows, at most {}", plan.num_rows(), limits.max_rows));
  }
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const SequenceStep& sequence = plan.sequences[i];
    if (auto r = CheckPositions(sequence, limits); !r) return r;
    if (auto r = CheckBlocks(sequence, limits); !r) return r;
    if (auto r = CheckLogits(sequence); !r) return r;
    for (size_t j = 0; j < i; ++j) {
      if (plan.sequences[j].slot == sequence.slot) return Invalid(sequence, "appears twice");
    }
  }
  for (const SequenceStep& sequence : plan.sequences) {
    if (auto r = CheckWritten(plan, sequence); !r) return r;
  }
  return {};
}

std::string ToString(const StepPlan& plan) {
  std::string text = fmt::format("step: {} sequences, {} rows, {} with logits\n",
                                 plan.sequences.size(), plan.num_rows(), plan.num_logit_rows());
  for (const SequenceStep& sequence : plan.sequences) {
    text += fmt::format("  slot {} {} positions {}..{} tokens {} blocks {} logits {}",
                        sequence.slot, PhaseName(sequence.phase), sequence.first_position,
                        sequence.end_position() - 1, Shortened(sequence.tokens),
                        Shortened(sequence.blocks), LogitRowsName(sequence.logits));
    if (sequence.prompt_tokens > 0) text += fmt::format(" prompt {}", sequence.prompt_tokens);
    if (sequence.logits == LogitRows::kList) text += " " + Shortened(sequence.logit_rows);
    text += "\n";
  }
  return text;
}

}  // namespace baton
