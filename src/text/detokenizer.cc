#include "text/detokenizer.h"

#include <utility>

#include "text/unicode.h"

namespace baton {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, const DecodeOptions& options)
    : tokenizer_(tokenizer), options_(options) {}

std::string Detokenizer::Push(TokenId id) {
  std::string text = std::exchange(held_, std::string());
  text += tokenizer_.DecodedPiece(id, options_, at_start_);
  if (id != tokenizer_.bos()) at_start_ = false;
  const size_t complete = text.size() - IncompleteUtf8TailLength(text);
  held_ = text.substr(complete);
  text.resize(complete);
  return text;
}

std::string Detokenizer::Finish() {
  return std::exchange(held_, std::string());
}

}  // namespace baton
