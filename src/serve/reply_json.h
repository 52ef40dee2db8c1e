// Answers as the OpenAI API writes them: whole ones, and the pieces of streams.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/generation.h"
#include "serve/tool_rules.h"
#include "text/tokenizer.h"

namespace baton {

// What all parts of one answer have in common. The tokenizer outlives it.
struct ReplyHead {
  bool is_chat = false;
  std::string id;
  int64_t created = 0;  // seconds since 1970
  std::string model;
  const Tokenizer* tokenizer = nullptr;
};

// How a prompt was read.
struct ReplyPrefill {
  std::string policy;                   // "dense", or its text
  std::optional<PrefillReport> report;  // of a sparse one
};

struct ReplyUsage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of these
  int64_t completion_tokens = 0;
  // Of the choice that took longest. Units: seconds, as GenerationFigures has them.
  double queue_seconds = 0;
  double first_token_seconds = 0;
  double prefill_seconds = 0;
  double decode_seconds = 0;
  std::vector<ReplyPrefill> prefills = {};  // of each prompt; empty: nobody asked for any
};

// How far a prompt is read; cached tokens count as read.
struct PromptProgress {
  int64_t total_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t read_tokens = 0;
};

// A piece of one choice.
struct ReplyPiece {
  int64_t choice = 0;
  bool has_role = false;                      // the first one of a chat's choice
  std::string_view text = {};                 // valid UTF-8
  std::span<const SampledToken> tokens = {};  // with log-probabilities; empty: none are told
  // Characters before these tokens; less than zero by those that are not in the text.
  int64_t text_offset = 0;
  std::optional<std::string_view> finish_reason = std::nullopt;
  std::optional<PromptProgress> progress = std::nullopt;
  std::span<const ToolCall> calls = {};
  int64_t first_call = 0;  // which call of the choice the first of these is
};

// One whole choice.
struct ReplyChoice {
  std::string text = {};
  std::vector<SampledToken> tokens = {};
  std::vector<ToolCall> calls = {};
  bool has_logprobs = false;
  std::string_view finish_reason = {};
  int64_t text_offset = 0;  // as ReplyPiece's
};

// One line of JSON each. Log-probabilities are those of the model's own distribution.
std::string PieceJson(const ReplyHead& head, const ReplyPiece& piece);
std::string UsageJson(const ReplyHead& head, const ReplyUsage& usage);
std::string ReplyJson(const ReplyHead& head, std::span<const ReplyChoice> choices,
                      const ReplyUsage& usage);

// The reason as the API names it; nothing for one that it has no name for.
std::optional<std::string_view> FinishReason(StopReason reason);

// The characters that the tokens spell.
int64_t CountCharacters(std::span<const SampledToken> tokens, const Tokenizer& tokenizer);

}  // namespace baton
