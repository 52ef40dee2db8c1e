// The figures of a generation, for people and for programs.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "engine/generator.h"

namespace baton {

// How far a prompt was read, as seen from outside. Units: seconds from the start.
struct PromptReading {
  int64_t tokens = 0;  // of those that were not cached
  double seconds = 0;
};

// The figures of a generation. What did not happen has no figure: a generation that was stopped
// while it read the prompt has no first token, one token has no rate.
struct AnswerFigures {
  GenerationFigures counted;
  // All of the prompt that was not cached, if there was a first token.
  PromptReading reading;
  std::optional<double> first_token_seconds;
  std::optional<double> prefill_tokens_per_second;
  std::optional<double> decode_seconds;
  std::optional<double> decode_tokens_per_second;  // of the tokens after the first
};

// `reading` is what was seen; it counts where the generation itself measured nothing.
AnswerFigures FiguresOf(const GenerationFigures& figures, const PromptReading& reading);

// Five lines: prompt, prefill, decode, memory, stop; of a sparse prefill also what it read, and the
// policy wherever other than dense reading was asked for.
std::string FiguresText(const GenerationResult& result, const PromptReading& reading);

// Two lines, for a turn of a chat.
std::string FiguresNote(const GenerationResult& result, const PromptReading& reading);

// All figures as a JSON object; null for what did not happen.
nlohmann::ordered_json FiguresJson(const GenerationFigures& figures, const PromptReading& reading);

}  // namespace baton
