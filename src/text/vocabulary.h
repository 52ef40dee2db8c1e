// What a model file says about its vocabulary, as plain data. Knows no file format: the names in
// its errors are those of the fields of `tokenizer.ggml.*` in GGUF, without that prefix.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace baton {

inline constexpr TokenId kNoToken = -1;

// Limits on what a file may claim.
inline constexpr size_t kMaxVocabularySize = 1
                                             << 22;  // 4,194,304 tokens; the largest known: 262,144
inline constexpr size_t kMaxMerges = 1 << 23;
inline constexpr size_t kMaxTokenBytes = 16 << 10;  // the longest known is 1,024

enum class VocabularyKind {
  kByteLevelBpe,   // pieces over the 256 bytes, merges in order of rank ("gpt2")
  kSentencePiece,  // pieces over characters with scores, U+2581 for a space ("llama")
};

// The kinds of piece, numbered as SentencePiece and GGUF do.
enum class PieceType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      // never made from ordinary text, only where special tokens are parsed
  kUserDefined = 4,  // matched as a whole in any text, before everything else
  kUnused = 5,
  kByte = 6,  // "<0xNN>": one byte, for characters without a piece
};

// Blanks that belong to a special token: `strip_left` swallows those before it, `strip_right` those
// after it. Only parsing special tokens looks at it.
struct StripRule {
  TokenId id = kNoToken;
  bool strip_left = false;
  bool strip_right = false;
};

// A vocabulary as a file states it.
struct VocabularyData {
  VocabularyKind kind = VocabularyKind::kByteLevelBpe;
  std::string pre;                  // name of the pre-tokenizer; byte-level only
  std::vector<std::string> tokens;  // as in the file: byte-level alphabet, U+2581, "<0xNN>"
  std::vector<float> scores;        // one per token; SentencePiece only
  std::vector<PieceType> types;     // one per token; may be empty for byte-level (all normal)
  std::vector<std::string> merges;  // "left right", best first; byte-level only
  std::vector<StripRule> strip_rules;

  TokenId bos = kNoToken;
  TokenId eos = kNoToken;
  TokenId eot = kNoToken;  // end of turn
  TokenId eom = kNoToken;  // end of message
  TokenId unk = kNoToken;
  TokenId pad = kNoToken;

  bool add_bos = false;
  bool add_eos = false;
  bool add_space_prefix = false;  // SentencePiece: a space before the text's first character
  bool remove_extra_whitespaces = false;  // SentencePiece: trim, and make runs of spaces one
};

// Checks everything that can be checked without building a tokenizer: lengths that must agree, ids
// in range, limits, piece texts, finite scores, names of byte pieces.
// Errors: corrupt, the message starting with the field's name ("bos_token_id: ...").
Result<void> ValidateVocabulary(const VocabularyData& data);

// The value of a byte piece's name, 0 to 255, or -1 if the name is not "<0x" two hex digits ">".
int ByteOfPieceName(std::string_view name);

}  // namespace baton
