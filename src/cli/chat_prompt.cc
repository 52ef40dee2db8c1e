#include "cli/chat_prompt.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ctime>

#include "text/chat_template.h"

namespace baton {
namespace {

// Local time, for templates that print the date.
CivilTime Now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  if (::localtime_r(&now, &local) == nullptr) return {};
  return {.year = local.tm_year + 1900,
          .month = local.tm_mon + 1,
          .day = local.tm_mday,
          .hour = local.tm_hour,
          .minute = local.tm_min,
          .second = local.tm_sec};
}

std::string PieceOrEmpty(const Tokenizer& tokenizer, TokenId id) {
  return tokenizer.IsToken(id) ? std::string(tokenizer.Piece(id)) : std::string();
}

}  // namespace

Result<std::string> RenderChat(const LoadedModel& model,
                               const std::vector<ConversationMessage>& messages) {
  if (model.chat_template == nullptr) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("the model has no chat template; name one with --chat-template ({}), "
                            "or let it go on from a text with 'baton run --raw'",
                            fmt::join(ChatTemplate::BuiltinNames(), ", ")));
  }
  std::vector<ChatMessage> chat;
  chat.reserve(messages.size());
  for (const ConversationMessage& message : messages) {
    chat.push_back({.role = message.role, .content = message.content});
  }
  ChatTemplateInputs inputs;
  inputs.messages = MessagesValue(chat);
  inputs.bos_token = PieceOrEmpty(*model.tokenizer, model.tokenizer->bos());
  inputs.eos_token = PieceOrEmpty(*model.tokenizer, model.tokenizer->eos());
  inputs.now = Now();
  return model.chat_template->RenderAdapted(inputs, TemplateLimits{});
}

}  // namespace baton
