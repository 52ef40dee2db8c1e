// The figures of a generation, for people and for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/generator.h"

namespace baton {

// Prompt tokens that a second of prefill computed; 0 if none or no time was measured.
double PrefillTokensPerSecond(const GenerationFigures& figures);

// Tokens after the first, by the time they took; 0 if there are none.
double DecodeTokensPerSecond(const GenerationFigures& figures);

// Five lines: prompt, prefill, decode, memory, end.
std::string FiguresText(const GenerationResult& result);

// One line, for a turn of a chat.
std::string FiguresLine(const GenerationResult& result);

// All figures as a JSON object.
nlohmann::ordered_json FiguresJson(const GenerationFigures& figures);

}  // namespace baton
