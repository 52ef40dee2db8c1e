// From messages to a prompt that the model can take.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "cli/conversation.h"
#include "engine/loaded_model.h"

namespace baton {

// Whether there will be a chat template once the model is loaded: a look at the file's header, so
// that nobody waits for the weights first.
// Errors: invalid (there will be none), as GgufFile::Open.
Result<> CheckHasChatTemplate(const LoadOptions& options);

// The messages in the words of the model's chat template, ready for an answer. The contents are
// guarded (Tokenizer::GuardContent), so that what they spell stays text; Conversation::Encode takes
// the guards away again.
// Errors: invalid (the model has no template, or the template makes nothing of the messages or
// refuses them, in its words).
Result<std::string> RenderChat(const LoadedModel& model,
                               const std::vector<ConversationMessage>& messages);

// Whether a prompt leaves room for an answer of at least one token.
// Errors: invalid, with both numbers and what to do about it.
Result<> CheckFitsContext(const std::vector<TokenId>& prompt, const LoadedModel& model);

}  // namespace baton
