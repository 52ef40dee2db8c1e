// SentencePiece BPE: characters, joined pair by pair in the order of the pieces' scores.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/added_tokens.h"
#include "text/vocabulary.h"
#include "text/vocabulary_index.h"

namespace baton {

// U+2581, which stands for a space in SentencePiece pieces.
inline constexpr std::string_view kSpaceMarker = "\xE2\x96\x81";

// The text with U+2581 for every space.
std::string MarkSpaces(std::string_view text);

// The piece with a space for every U+2581.
std::string UnmarkSpaces(std::string_view piece);

// The pieces and scores of a vocabulary. Immutable; threads: any number of readers.
class SentencePieceBpe {
 public:
  // Requires: ValidateVocabulary(data) succeeded.
  explicit SentencePieceBpe(const VocabularyData& data);

  // Appends the ids of a text in which MarkSpaces has run. Pieces defined by the user are matched
  // first, leftmost and longest; the rest merges between them. Characters without a piece, and
  // ill-formed bytes, become byte pieces, or the unknown token where the vocabulary has none.
  // Requires: marked.size() is below 2^30.
  // Errors: invalid, if there is no unknown token either.
  // Time: n log n in the text's longest stretch that pieces could span.
  Result<void> Encode(std::string_view marked, std::vector<TokenId>& out) const;

 private:
  struct Workspace;

  void AddPieces(const VocabularyData& data);
  void FindJoinableBytes(const VocabularyData& data);
  Result<void> EncodeBetween(std::string_view marked, Workspace& workspace,
                             std::vector<TokenId>& out) const;
  Result<void> EncodeStretch(std::string_view stretch, Workspace& workspace,
                             std::vector<TokenId>& out) const;
  void LoadSymbols(std::string_view stretch, Workspace& workspace) const;
  void PushPair(std::string_view stretch, int32_t left, Workspace& workspace) const;
  Result<void> EmitPiece(std::string_view bytes, const Workspace& workspace,
                         std::vector<TokenId>& out) const;
  Result<void> EmitBytes(std::string_view bytes, std::vector<TokenId>& out) const;

  PieceTable table_;  // pieces as in the file, with U+2581
  PieceIndex index_;  // normal, user-defined and unused ones
  AddedTokens user_defined_;
  std::vector<int32_t> ranks_;  // by id: place of the piece's score among all, best first
  std::vector<bool> unused_;    // by id
  bool has_unused_ = false;
  std::array<TokenId, 256> byte_ids_{};
  TokenId unk_ = kNoToken;
  // The last bytes of characters that stand right before U+2581 inside some piece. A text can be
  // cut before U+2581 after any other byte without changing its pieces.
  std::bitset<256> joins_marker_;
};

}  // namespace baton
