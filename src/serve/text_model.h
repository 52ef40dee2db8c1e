// What the server's front needs of a model: its words, no weights.
#pragma once

#include <cstdint>
#include <string>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace baton {

// The parts outlive it. Threads: any number of readers.
struct TextModel {
  std::string id;  // the name that clients use
  const Tokenizer& tokenizer;
  const ChatTemplate* chat_template = nullptr;  // null: no chat
  int64_t vocab_size = 0;
  int64_t context_tokens = 0;
  // Bytes of the longest piece of the vocabulary, at least 1.
  int64_t longest_piece_bytes = 1;
};

// Requires: the parts outlive the result.
TextModel MakeTextModel(std::string id, const Tokenizer& tokenizer,
                        const ChatTemplate* chat_template, int64_t context_tokens);

}  // namespace baton
