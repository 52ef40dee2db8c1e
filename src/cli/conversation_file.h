// Conversations on disk: {"messages": [{"role": ..., "content": ...}, ...]}.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/conversation.h"

namespace baton {

// Writes the messages. A regular file is replaced at once and whole: on any failure the old one is
// still there, and no other file is left behind. Devices and pipes are written to directly.
// Errors: internal (with the system's words: full disk, no permission), not-found (no such folder).
Result<> SaveConversation(const std::string& path,
                          const std::vector<ConversationMessage>& messages);

// Reads what SaveConversation wrote, or any JSON of that form; other keys are ignored.
// Errors: as ReadTextOrInput; invalid (not of this form, too many or too deep).
Result<std::vector<ConversationMessage>> LoadConversation(const std::string& path);

}  // namespace baton
