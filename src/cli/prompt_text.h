// One user message from files, standard input and a question.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/input.h"

namespace baton {

struct PromptSources {
  std::vector<std::string> files;       // in this order; "-" is standard input
  std::optional<std::string> question;  // "-" is standard input
};

// Joins texts with an empty line between two of them; empty ones leave no trace, and line ends at
// the end of what something follows are dropped. A single text stays as it is.
std::string JoinTexts(const std::vector<std::string>& texts);

// Reads all sources and joins them: the documents in the order given, then the question.
// Errors: as ReadTextOrInput; invalid (not UTF-8, or empty: no source holds anything).
Result<std::string> ReadPrompt(const PromptSources& sources, Input& standard_input);

}  // namespace baton
