#include "cli/chat_prompt.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "base/number_text.h"
#include "cli/local_time.h"
#include "format/gguf.h"
#include "model/arch/architecture.h"
#include "text/chat_template.h"
#include "text/guarded_chat.h"

namespace baton {
namespace {

tl::unexpected<Error> NoChatTemplate() {
  return Fail(ErrorCode::kInvalid,
              fmt::format("the model has no chat template; name one with --chat-template ({}), "
                          "or let it go on from a text with 'baton run --raw'",
                          fmt::join(ChatTemplate::BuiltinNames(), ", ")));
}

}  // namespace

Result<> CheckHasChatTemplate(const LoadOptions& options) {
  if (options.chat_template_name.has_value() || options.chat_template_text.has_value()) return {};
  const Result<GgufFile> file = GgufFile::Open(options.path);
  if (!file) return Forward(file);
  // What is wrong with the model is told when it is loaded.
  if (file->Has("tokenizer.chat_template") || !ReadModelSpec(*file)) return {};
  return NoChatTemplate();
}

Result<std::string> RenderChat(const LoadedModel& model,
                               const std::vector<ConversationMessage>& messages) {
  if (model.chat_template == nullptr) return NoChatTemplate();
  std::vector<ChatMessage> chat;
  chat.reserve(messages.size());
  for (const ConversationMessage& message : messages) {
    chat.push_back(
        {.role = message.role, .content = model.tokenizer->GuardContent(message.content)});
  }
  ChatTemplateInputs inputs;
  inputs.messages = MessagesValue(chat);
  inputs.now = LocalTimeNow();
  Result<std::string> prompt =
      RenderGuardedChat(*model.chat_template, *model.tokenizer, std::move(inputs));
  if (prompt && prompt->empty()) {
    return Fail(ErrorCode::kInvalid,
                "the chat template makes an empty prompt of the messages; name another with "
                "--chat-template, or let the model go on from a text with 'baton run --raw'");
  }
  return prompt;
}

Result<> CheckFitsContext(const std::vector<TokenId>& prompt, const LoadedModel& model) {
  const auto num_tokens = static_cast<int64_t>(prompt.size());
  if (num_tokens < model.context_tokens) return {};
  const int64_t trained = model.model->spec().trained_context;
  return Fail(ErrorCode::kInvalid,
              fmt::format("the prompt has {} and leaves no room for an answer in the context "
                          "of {}; raise --ctx (the model was trained for {}) or shorten the prompt",
                          CountOf(num_tokens, "token"), CountText(model.context_tokens),
                          CountText(trained)));
}

}  // namespace baton
