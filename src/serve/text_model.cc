#include "serve/text_model.h"

#include <algorithm>
#include <utility>

namespace baton {

TextModel MakeTextModel(std::string id, const Tokenizer& tokenizer,
                        const ChatTemplate* chat_template, int64_t context_tokens) {
  TextModel model{.id = std::move(id),
                  .tokenizer = tokenizer,
                  .chat_template = chat_template,
                  .vocab_size = static_cast<int64_t>(tokenizer.size()),
                  .context_tokens = context_tokens};
  for (size_t id_index = 0; id_index < tokenizer.size(); ++id_index) {
    const auto bytes = std::ssize(tokenizer.Piece(static_cast<TokenId>(id_index)));
    model.longest_piece_bytes = std::max<int64_t>(model.longest_piece_bytes, bytes);
  }
  return model;
}

}  // namespace baton
