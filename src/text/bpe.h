// Byte-level BPE: a word's bytes, joined pair by pair in the order of the merge list.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/vocabulary.h"
#include "text/vocabulary_index.h"

namespace baton {

// What one call of Encode works in; keep it from word to word to save allocations.
struct BpeWorkspace {
  struct Symbol {
    TokenId id;
    int32_t previous;
    int32_t next;
  };
  std::vector<Symbol> symbols;
  std::vector<uint64_t> queue;
};

// The merges of a vocabulary. Immutable; threads: any number of readers, each with its workspace.
class ByteLevelBpe {
 public:
  // `table` holds the raw bytes of data's pieces (MakePieceTable in tokenizer.cc).
  // Errors: corrupt, naming "merges" or "tokens": a merge that is not two parts, names unknown
  // pieces, or makes one.
  static Result<ByteLevelBpe> Make(const VocabularyData& data, const PieceTable& table);

  // The id of a whole word, or kNoToken.
  TokenId WholeWord(const PieceTable& table, std::string_view word) const {
    return index_.Find(table, word);
  }

  // Appends the ids of one word. A byte that the vocabulary has no piece for counts as U+FFFD.
  // Requires: word.size() is below 2^30.
  // Errors: invalid, if there is no piece for U+FFFD either.
  // Time: n log n in the length of the word.
  Result<void> Encode(std::string_view word, BpeWorkspace& workspace,
                      std::vector<TokenId>& out) const;

 private:
  struct Merge {
    TokenId left;
    TokenId right;
    TokenId merged;
  };

  explicit ByteLevelBpe(size_t num_tokens) : index_(num_tokens) {}

  Result<void> AddMerges(const VocabularyData& data, const PieceTable& table);
  int32_t FindRank(TokenId left, TokenId right) const;
  Result<void> LoadSymbols(std::string_view word, BpeWorkspace& workspace) const;

  PieceIndex index_;                     // pieces that words are made of
  std::array<TokenId, 256> byte_ids_{};  // kNoToken where the vocabulary lacks the byte
  std::vector<Merge> merges_;            // by rank
  std::vector<int32_t> rank_slots_;      // hash table of merges_ by (left, right); -1 = free
};

}  // namespace baton
