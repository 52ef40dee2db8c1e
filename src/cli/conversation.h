// A conversation: its messages, and the token ids they became.
//
// The ids that the model wrote stay as they are: a text that is decoded and encoded again may come
// out as other tokens, and then the cache would no longer match. So a turn's prompt is the ids of
// the turn before, prompt and answer, and only what is new is encoded.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/tokenizer.h"

namespace baton {

struct ConversationMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;

  friend bool operator==(const ConversationMessage&, const ConversationMessage&) = default;
};

class Conversation {
 public:
  // Starts with a system message, if there is one.
  explicit Conversation(std::optional<std::string> system);

  const std::vector<ConversationMessage>& messages() const { return messages_; }

  void AddUser(std::string text);

  // The prompt's ids. `rendered` is what the chat template makes of messages(), their contents
  // guarded (Tokenizer::GuardContent), ready for an answer; what it has in common with the last
  // turn keeps its ids. Errors: as Tokenizer::Encode.
  Result<std::vector<TokenId>> Encode(const std::string& rendered, const Tokenizer& tokenizer);

  // Adds the answer to the prompt that Encode returned last. `ids` spell `text`, special tokens
  // left out, unless it was cut at a stop string. In the message, bytes that are no UTF-8 are
  // U+FFFD.
  void AddAnswer(const std::string& text, const std::vector<TokenId>& ids,
                 const Tokenizer& tokenizer);

  // Takes back the last message, which got no answer.
  void DropLast();

  // Back to the start: only the system message stays.
  void Reset();

  // Continues with these messages, behind the own system message unless they have one.
  void Replace(std::vector<ConversationMessage> messages);

 private:
  std::optional<std::string> system_;
  std::vector<ConversationMessage> messages_;
  // What the last turn was: the text of prompt and answer, and the ids of that text.
  std::string rendered_;
  std::vector<TokenId> ids_;
};

}  // namespace baton
