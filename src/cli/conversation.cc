#include "cli/conversation.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "text/guarded_chat.h"
#include "text/unicode.h"

namespace baton {

Conversation::Conversation(std::optional<std::string> system) : system_(std::move(system)) {
  Reset();
}

void Conversation::AddUser(std::string text) {
  messages_.push_back({.role = "user", .content = std::move(text)});
}

Result<std::vector<TokenId>> Conversation::Encode(const std::string& rendered,
                                                  const Tokenizer& tokenizer) {
  if (!rendered_.empty() && rendered.starts_with(rendered_)) {
    const Result<std::vector<TokenId>> rest =
        tokenizer.Encode(std::string_view(rendered).substr(rendered_.size()),
                         {.add_special = false, .parse_special = true, .drop_guards = true});
    // Only a special token is sure to be a border between tokens.
    if (rest && !rest->empty() && tokenizer.IsControl(rest->front())) {
      rendered_ = rendered;
      ids_.insert(ids_.end(), rest->begin(), rest->end());
      return ids_;
    }
  }
  Result<std::vector<TokenId>> ids = EncodeGuardedChat(tokenizer, rendered);
  if (!ids) return ids;
  rendered_ = rendered;
  ids_ = *ids;
  return ids;
}

void Conversation::AddAnswer(const std::string& text, const std::vector<TokenId>& ids,
                             const Tokenizer& tokenizer) {
  const Result<std::string> spelled =
      tokenizer.Decode(ids, {.skip_special = true, .starts_text = false});
  std::string content = ReplaceInvalidUtf8(text);
  if (spelled && *spelled == text) {
    rendered_ += tokenizer.GuardContent(content);
    ids_.insert(ids_.end(), ids.begin(), ids.end());
  } else {
    // Cut at a stop string.
    rendered_.clear();
    ids_.clear();
  }
  messages_.push_back({.role = "assistant", .content = std::move(content)});
}

void Conversation::DropLast() {
  if (!messages_.empty()) messages_.pop_back();
  rendered_.clear();
  ids_.clear();
}

void Conversation::Reset() {
  messages_.clear();
  rendered_.clear();
  ids_.clear();
  if (system_.has_value()) messages_.push_back({.role = "system", .content = *system_});
}

void Conversation::Replace(std::vector<ConversationMessage> messages) {
  const bool has_system = std::any_of(messages.begin(), messages.end(),
                                      [](const auto& message) { return message.role == "system"; });
  if (has_system) {
    messages_.clear();
    rendered_.clear();
    ids_.clear();
  } else {
    Reset();
  }
  messages_.insert(messages_.end(), std::make_move_iterator(messages.begin()),
                   std::make_move_iterator(messages.end()));
}

}  // namespace baton
