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

// Reads all sources and joins them: the documents in the order given, then the question, with an
// empty line between two of them (line ends at the end of a document that something follows are
// dropped). A single source stays as it is.
// Errors: as ReadTextOrInput; invalid (not UTF-8, or empty: no source holds anything but blanks).
Result<std::string> ReadPrompt(const PromptSources& sources, Input& standard_input);

}  // namespace baton
