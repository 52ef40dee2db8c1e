// Brings the messages of a conversation into the shapes that a template reads.
#pragma once

#include <vector>

#include "base/result.h"
#include "text/chat_template.h"
#include "text/template_value.h"

namespace baton {

// The messages as a list, without null fields, with reasoning under both of its names.
// Errors: kInvalid for what is no list of objects with a role.
Result<std::vector<templates::Value>> CheckedMessages(const templates::Value& messages);

struct MessageShapes {
  ContentShape content;
  ArgumentsShape arguments;
};

// The message in the shapes asked for; unknown shapes leave strings and objects.
// Errors: kInvalid naming `index` for parts and arguments that break the rules of chat_template.h.
Result<templates::Value> AdaptedMessage(const templates::Value& message, std::size_t index,
                                        const MessageShapes& shapes);

// The dict with one key set or replaced.
templates::Value WithField(const templates::Value& dict, std::string_view key,
                           templates::Value value);

// The text of a content: a string, or its text parts joined; undefined and None are empty.
// Errors: kInvalid for parts of other types and parts without text.
Result<std::string> ContentText(const templates::Value& content);

}  // namespace baton
