// Conversations on disk: {"messages": [{"role": ..., "content": ...}, ...]}.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/conversation.h"
#include "cli/interrupt.h"

namespace baton {

// Writes the messages. A regular file, or the one that a link points to, is replaced at once and
// whole: on any failure the old one is still there, and no other file is left behind, also when
// Ctrl-C ends the program. Devices and pipes are written to directly, for as long as the reader
// takes and no interrupt is requested.
// A file that holds something else than a conversation is not replaced.
// Errors: invalid (such a file), internal (with the system's words: full disk, no permission, a
// pipe without a reader), not-found (no such folder), cancelled.
Result<> SaveConversation(const std::string& path, const std::vector<ConversationMessage>& messages,
                          Interrupt& interrupt);

// Reads what SaveConversation wrote, or any JSON of that form; other keys are ignored.
// Errors: as ReadTextOrInput; invalid (not of this form, too many or too deep).
Result<std::vector<ConversationMessage>> LoadConversation(const std::string& path);

}  // namespace baton
