#include "text/guarded_chat.h"

#include <utility>

namespace baton {
namespace {

std::string PieceOrEmpty(const Tokenizer& tokenizer, TokenId id) {
  return tokenizer.IsToken(id) ? std::string(tokenizer.Piece(id)) : std::string();
}

}  // namespace

Result<std::string> RenderGuardedChat(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                                      ChatTemplateInputs inputs) {
  inputs.bos_token = PieceOrEmpty(tokenizer, tokenizer.bos());
  inputs.eos_token = PieceOrEmpty(tokenizer, tokenizer.eos());
  return chat_template.RenderAdapted(inputs, TemplateLimits{});
}

Result<std::vector<TokenId>> EncodeGuardedChat(const Tokenizer& tokenizer,
                                               std::string_view rendered) {
  Result<std::vector<TokenId>> ids =
      tokenizer.Encode(rendered, {.add_special = true, .parse_special = true, .drop_guards = true});
  // An end token that the vocabulary adds would close the conversation before the answer.
  if (ids && tokenizer.adds_eos() && !ids->empty() && ids->back() == tokenizer.eos()) {
    ids->pop_back();
  }
  return ids;
}

}  // namespace baton
