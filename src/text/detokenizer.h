// Token ids to text while they arrive: every piece handed out ends at a character.
//
// The pieces, joined, are exactly what Tokenizer::Decode makes of all ids. A character whose bytes
// are spread over tokens comes out with its last byte; until then its start, at most 3 bytes, is
// held. Bytes that are no UTF-8 come out raw, as in the whole decoding, as soon as no later byte
// can complete them; so a piece is ill-formed only where the whole text is, and replacing
// ill-formed parts piece by piece (ReplaceInvalidUtf8) gives the same as replacing them in the
// whole.
#pragma once

#include <string>

#include "base/ids.h"
#include "text/tokenizer.h"

namespace baton {

// One stream. Threads: one at a time.
class Detokenizer {
 public:
  // Memory: keeps a reference; the tokenizer must outlive it.
  Detokenizer(const Tokenizer& tokenizer, const DecodeOptions& options);

  // The text that is complete with this id; empty if none is.
  // Requires: tokenizer.IsToken(id).
  std::string Push(TokenId id);

  // What is still held: the start of a character that never came. Empty if the text was whole.
  std::string Finish();

 private:
  const Tokenizer& tokenizer_;
  DecodeOptions options_;
  bool at_start_ = true;
  std::string held_;
};

}  // namespace baton
