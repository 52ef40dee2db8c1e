// Opens a model for a command.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "cli/console.h"
#include "engine/loaded_model.h"

namespace baton {

// LoadModel, drawing on the console's status line; then tells the warnings, as notes. Ctrl-C while
// it runs ends the program.
// Errors: as LoadModel.
Result<LoadedModel> OpenModel(const LoadOptions& options, Console& console);

// The context that a model would be opened with: that of the options, else what it was trained for,
// by its metadata alone. Errors: as GgufFile::Open and ReadModelSpec.
Result<int64_t> ContextOf(const LoadOptions& options);

// Opens the tokenizer alone; a file that holds only a vocabulary will do.
// Errors: as GgufFile::Open and TokenizerFromGguf.
Result<Tokenizer> OpenTokenizer(const std::string& path);

}  // namespace baton
