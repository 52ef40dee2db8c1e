// The vocabulary of a GGUF file, and the tokenizer made of it.
//
// Keys read, all below `tokenizer.ggml.`: model ("gpt2": byte-level BPE, "llama": SentencePiece;
// others are refused by name), pre, tokens, scores, token_type, merges, the ids bos_, eos_, eot_,
// eom_, unknown_ and padding_token_id, and the flags add_bos_token, add_eos_token,
// add_space_prefix, remove_extra_whitespaces.
//
// What holds where a key is missing:
//  - pre: refused for byte-level vocabularies (files from before 2024 lack it), never guessed.
//  - add_bos_token: true for SentencePiece with a BOS, and for the byte-level families that say so
//    in text/pretokenizer_table; else false. add_eos_token: false.
//  - add_space_prefix: true for SentencePiece. remove_extra_whitespaces: false.
//  - unknown_token_id: the first token of type "unknown", if there is one.
//  - token_type: for byte-level vocabularies, all tokens are normal but the ones named by an id.
#pragma once

#include "base/result.h"
#include "format/gguf.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace baton {

// Reads the vocabulary. Copies everything; the file may be closed afterwards.
// Errors: not-found, corrupt, unavailable; the message names the file, once, and the whole key.
Result<VocabularyData> VocabularyFromGguf(const GgufFile& file);

// Reads the vocabulary and builds its tokenizer. Also checks that there is a token for every row of
// the embedding, in files that have one.
// Errors: as VocabularyFromGguf, and corrupt for what Tokenizer::Make finds.
Result<Tokenizer> TokenizerFromGguf(const GgufFile& file);

}  // namespace baton
