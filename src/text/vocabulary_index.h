// The pieces of a vocabulary as raw bytes in one buffer, and the way back from bytes to an id.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace baton {

// Byte strings by number. Memory: one buffer of all bytes and 4 bytes per piece.
class PieceTable {
 public:
  PieceTable() { ends_.push_back(0); }

  // Appends a piece; its id is the number of pieces before it.
  // Requires: all pieces together stay below 4 GiB.
  void Append(std::string_view bytes);

  std::string_view operator[](TokenId id) const;
  size_t size() const { return ends_.size() - 1; }

 private:
  std::string bytes_;
  std::vector<uint32_t> ends_;  // ends_[id + 1] is the end of piece id
};

// A hash table from bytes to ids of a PieceTable, open addressing, at most half full.
class PieceIndex {
 public:
  // Requires: no more than `max_pieces` insertions follow.
  explicit PieceIndex(size_t max_pieces);

  // Makes table[id] findable. Of equal pieces the first one inserted stays. Empty ones are left
  // out.
  void Insert(const PieceTable& table, TokenId id);

  // The id of a piece of exactly these bytes, or kNoToken.
  // Threads: any number of readers.
  TokenId Find(const PieceTable& table, std::string_view bytes) const;

 private:
  std::vector<TokenId> slots_;  // kNoToken = free; size is a power of two
  size_t max_piece_bytes_ = 0;  // no longer text can be found
};

}  // namespace baton
