// What a person types in a chat: messages of one or many lines, and commands.
//
// A message is one line. A line that ends in a backslash goes on in the next; """ opens a message
// that ends at the next """, whatever stands between. A line that starts with a slash is a command;
// a blank in front of it makes it a message.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/input.h"
#include "cli/output.h"

namespace baton {

struct ChatEntry {
  enum class Kind {
    kMessage,      // text
    kCommand,      // name without slash, argument
    kInterrupted,  // Ctrl-C: what was half typed is gone
    kEnd,          // no more input
  };
  Kind kind = Kind::kEnd;
  std::string text;
  std::string name;
  std::string argument;
};

// The most that one message may hold. Units: bytes.
constexpr size_t kMaxMessageBytes = size_t{32} << 20;

// Reads the next entry; empty lines between entries are skipped. Prompts ("> ", "... ") go to
// `prompts` unless it is null. Input that ends inside a message ends the message.
// Errors: as Input::ReadLine; exhausted (a message over kMaxMessageBytes).
Result<ChatEntry> ReadChatEntry(Input& input, Output* prompts);

}  // namespace baton
