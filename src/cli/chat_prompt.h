// Messages to the text that a model expects.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/conversation.h"
#include "engine/loaded_model.h"

namespace baton {

// The messages in the words of the model's chat template, ready for an answer.
// Errors: invalid (the model has no template, or the template refuses the messages, in its words).
Result<std::string> RenderChat(const LoadedModel& model,
                               const std::vector<ConversationMessage>& messages);

}  // namespace baton
