// Opens a model for a command, with a progress bar where one can be seen.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "cli/console.h"
#include "engine/loaded_model.h"

namespace baton {

// LoadModel, drawing on the console's status line. Ctrl-C while it runs ends the program.
// Errors: as LoadModel.
Result<LoadedModel> OpenModel(const LoadOptions& options, Console& console);

// Sets the chat template that --chat-template names: a value with a dot or a slash is a file, any
// other the name of a built-in template.
// Errors: as ReadTextOrInput.
Result<> SetChatTemplate(const std::optional<std::string>& value, Console& console,
                         LoadOptions& options);

}  // namespace baton
