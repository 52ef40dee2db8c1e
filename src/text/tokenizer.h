// Text to token ids and back, for every kind of vocabulary that Baton knows.
//
// The rules, where files and implementations differ:
//  - Pieces defined by the user are matched in any text; control tokens only with parse_special.
//    Among what may start at a place the longest wins, then the search goes on behind it.
//  - Exactly one BOS: with add_special, and where the vocabulary adds BOS, BOS comes first unless
//    the text itself starts with it (parse_special; templates do that). More than one in the text
//    stays as written. The same for EOS at the end.
//  - The space prefix (SentencePiece) stands before the text's first character, unless the text
//    starts with a special token; BOS at the front, however often, does not count as one. Decoding
//    takes it off at the same place, so that decoding an encoded text gives the text again.
//  - Ill-formed UTF-8 is encoded byte by byte, each stretch of it apart from what surrounds it. A
//    byte that a byte-level vocabulary has no piece for is encoded like U+FFFD.
//  - Some byte-level families (qwen2, command-r) bring text to normalisation form C first, as in
//    their training; for these, decoding gives the normalised text. In SentencePiece vocabularies
//    U+2581 is the space itself and comes back as one.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/vocabulary.h"

namespace baton {

// Texts above this are refused; about 8 million tokens. Encoding takes up to 40 bytes per byte.
inline constexpr size_t kMaxTextBytes = 32 << 20;

struct EncodeOptions {
  bool add_special = false;    // BOS and EOS, where the vocabulary asks for them
  bool parse_special = false;  // the names of control tokens in the text mean the tokens
  bool drop_guards = false;    // guards of GuardContent go, once the special tokens are found
};

struct DecodeOptions {
  bool skip_special = false;  // control tokens spell nothing
  // The first id is the start of a text, so a space prefix is taken off. False for ids that
  // continue one, like a completion.
  bool starts_text = true;
};

// A vocabulary ready for use. Immutable, move-only; threads: any number of callers.
class Tokenizer {
 public:
  // Errors: corrupt, as ValidateVocabulary and ByteLevelBpe::Make; unavailable, for an unknown
  // pre-tokenizer ("pre: ...").
  static Result<Tokenizer> Make(VocabularyData data);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // The ids of a text; any bytes will do.
  // Errors: exhausted (longer than kMaxTextBytes), invalid (a character that the vocabulary cannot
  // spell in any way).
  // Time: n log n in the longest word, linear in all else.
  Result<std::vector<TokenId>> Encode(std::string_view text, const EncodeOptions& options) const;

  // A message's content with guards (text/content_guard.h), for a chat template whose output
  // Encode takes with parse_special and drop_guards: no control or unknown token comes of it, and
  // no user-defined one with a name that marks turns (an end token's, "<|...|>", "[INST]",
  // "<start_of_turn>", ...). Names that are no tokens of this vocabulary are plain text.
  std::string GuardContent(std::string_view content) const;

  // The bytes that the ids spell together.
  // Errors: invalid, for an id that is not in the vocabulary.
  Result<std::string> Decode(std::span<const TokenId> ids, const DecodeOptions& options) const;

  // The raw bytes of one token; perhaps only a part of a character. Control tokens give their name.
  // Requires: IsToken(id). Memory: the bytes stay as long as the tokenizer.
  std::string_view Piece(TokenId id) const;

  // The bytes that the id adds to a decoding, given the options and whether text stands before it
  // (anything but BOS). Requires: IsToken(id).
  std::string_view DecodedPiece(TokenId id, const DecodeOptions& options, bool at_start) const;

  bool IsToken(TokenId id) const { return id >= 0 && static_cast<size_t>(id) < size(); }

  // Whether a token stands for no text: control and unknown tokens. Requires: IsToken(id).
  bool IsControl(TokenId id) const;

  // The control or user-defined token of this name, if there is one.
  std::optional<TokenId> FindSpecial(std::string_view name) const;

  // The tokens that end a generation, ascending: the file's end of text, of turn and of message,
  // and every control or user-defined token with a name that model families use for these
  // (kEndTokenNames in tokenizer.cc: "<|im_end|>", "<|eot_id|>", "<end_of_turn>", ...).
  std::span<const TokenId> EndTokens() const;

  // The number of tokens.
  size_t size() const;

  // kNoToken where the vocabulary has none.
  TokenId bos() const;
  TokenId eos() const;
  bool adds_bos() const;
  bool adds_eos() const;

 private:
  struct Parts;

  explicit Tokenizer(std::unique_ptr<const Parts> parts);

  Result<void> EncodeOrdinary(std::string_view text, bool at_start,
                              std::vector<TokenId>& out) const;
  Result<void> EncodeGuarded(std::string_view text, bool at_start, std::vector<TokenId>& out) const;

  std::unique_ptr<const Parts> parts_;
};

}  // namespace baton
