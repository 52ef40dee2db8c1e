#include "text/vocabulary_index.h"

#include <bit>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "text/vocabulary.h"

namespace baton {
namespace {

// Multiplies in 8 bytes at a time; the two constants are odd numbers with well-spread bits.
uint64_t HashBytes(std::string_view bytes) {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15;
  uint64_t hash = bytes.size() * kMultiplier;
  const char* data = bytes.data();
  size_t left = bytes.size();
  while (left > 0) {
    uint64_t word = 0;
    const size_t count = left < 8 ? left : 8;
    std::memcpy(&word, data, count);
    hash = (hash ^ word) * kMultiplier;
    hash ^= hash >> 29;
    data += count;
    left -= count;
  }
  hash *= 0xD6E8FEB86659FD93;
  return hash ^ (hash >> 32);
}

}  // namespace

void PieceTable::Append(std::string_view bytes) {
  CHECK_LE(bytes_.size() + bytes.size(), std::numeric_limits<uint32_t>::max());
  bytes_.append(bytes);
  ends_.push_back(static_cast<uint32_t>(bytes_.size()));
}

std::string_view PieceTable::operator[](TokenId id) const {
  const auto index = static_cast<size_t>(id);
  return std::string_view(bytes_).substr(ends_[index], ends_[index + 1] - ends_[index]);
}

PieceIndex::PieceIndex(size_t max_pieces) : slots_(std::bit_ceil(2 * max_pieces + 1), kNoToken) {}

void PieceIndex::Insert(const PieceTable& table, TokenId id) {
  const std::string_view bytes = table[id];
  if (bytes.empty()) return;
  const size_t mask = slots_.size() - 1;
  size_t slot = HashBytes(bytes) & mask;
  while (slots_[slot] != kNoToken) {
    if (table[slots_[slot]] == bytes) return;
    slot = (slot + 1) & mask;
  }
  slots_[slot] = id;
  if (bytes.size() > max_piece_bytes_) max_piece_bytes_ = bytes.size();
}

TokenId PieceIndex::Find(const PieceTable& table, std::string_view bytes) const {
  if (bytes.empty() || bytes.size() > max_piece_bytes_) return kNoToken;
  const size_t mask = slots_.size() - 1;
  size_t slot = HashBytes(bytes) & mask;
  while (slots_[slot] != kNoToken) {
    if (table[slots_[slot]] == bytes) return slots_[slot];
    slot = (slot + 1) & mask;
  }
  return kNoToken;
}

}  // namespace baton
