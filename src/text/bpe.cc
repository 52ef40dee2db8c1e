#include "text/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <optional>
#include <string>

#include "base/check.h"
#include "text/bpe_alphabet.h"

namespace baton {
namespace {

constexpr int32_t kNone = -1;
constexpr std::string_view kReplacementBytes = "\xEF\xBF\xBD";

bool IsWordPiece(const VocabularyData& data, TokenId id, PieceType type) {
  return (data.types.empty() ? PieceType::kNormal : data.types[static_cast<size_t>(id)]) == type;
}

size_t PairSlot(TokenId left, TokenId right, size_t mask) {
  uint64_t key =
      (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
  key *= 0x9E3779B97F4A7C15;
  return (key ^ (key >> 32)) & mask;
}

}  // namespace

Result<ByteLevelBpe> ByteLevelBpe::Make(const VocabularyData& data, const PieceTable& table) {
  ByteLevelBpe bpe(data.tokens.size());
  // Normal pieces first: where an added token has the same bytes, words use the normal one.
  for (const PieceType type : {PieceType::kNormal, PieceType::kUnused, PieceType::kUserDefined}) {
    for (TokenId id = 0; id < static_cast<TokenId>(table.size()); ++id) {
      if (!IsWordPiece(data, id, type)) continue;
      if (BytesOfByteLevelPiece(data.tokens[static_cast<size_t>(id)])) bpe.index_.Insert(table, id);
    }
  }
  for (size_t byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    bpe.byte_ids_[byte] = bpe.index_.Find(table, std::string_view(&c, 1));
  }
  if (auto ok = bpe.AddMerges(data, table); !ok) return Forward(ok);
  return bpe;
}

Result<void> ByteLevelBpe::AddMerges(const VocabularyData& data, const PieceTable& table) {
  merges_.reserve(data.merges.size());
  rank_slots_.assign(std::bit_ceil(2 * data.merges.size() + 1), kNone);
  const size_t mask = rank_slots_.size() - 1;
  for (size_t i = 0; i < data.merges.size(); ++i) {
    const std::string& text = data.merges[i];
    const auto fail = [&](const char* what) {
      return Fail(ErrorCode::kCorrupt,
                  fmt::format("merges: entry {} (\"{}\") {}", i, text.substr(0, 64), what));
    };
    // A part is never empty and never holds a space: the alphabet writes the space as U+0120.
    const size_t space = text.find(' ', 1);
    if (space == std::string::npos || space + 1 == text.size()) {
      return fail("is not two pieces with a space between");
    }
    const auto left = BytesOfByteLevelPiece(std::string_view(text).substr(0, space));
    const auto right = BytesOfByteLevelPiece(std::string_view(text).substr(space + 1));
    if (!left || !right) return fail("has a character outside the byte-level alphabet");
    const Merge merge = {index_.Find(table, *left), index_.Find(table, *right),
                         index_.Find(table, *left + *right)};
    if (merge.left == kNoToken || merge.right == kNoToken) {
      return fail("names a piece that the vocabulary does not have");
    }
    if (merge.merged == kNoToken) return fail("makes a piece that the vocabulary does not have");
    const auto rank = static_cast<int32_t>(merges_.size());
    merges_.push_back(merge);
    if (FindRank(merge.left, merge.right) != kNone) continue;  // the better rank stays
    size_t slot = PairSlot(merge.left, merge.right, mask);
    while (rank_slots_[slot] != kNone) slot = (slot + 1) & mask;
    rank_slots_[slot] = rank;
  }
  return {};
}

int32_t ByteLevelBpe::FindRank(TokenId left, TokenId right) const {
  const size_t mask = rank_slots_.size() - 1;
  size_t slot = PairSlot(left, right, mask);
  while (rank_slots_[slot] != kNone) {
    const Merge& merge = merges_[static_cast<size_t>(rank_slots_[slot])];
    if (merge.left == left && merge.right == right) return rank_slots_[slot];
    slot = (slot + 1) & mask;
  }
  return kNone;
}

Result<void> ByteLevelBpe::LoadSymbols(std::string_view word, BpeWorkspace& workspace) const {
  auto& symbols = workspace.symbols;
  symbols.clear();
  const auto push = [&](TokenId id) {
    const auto position = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, position - 1, position + 1});
  };
  for (const char c : word) {
    const TokenId id = byte_ids_[static_cast<uint8_t>(c)];
    if (id != kNoToken) {
      push(id);
      continue;
    }
    for (const char r : kReplacementBytes) {
      const TokenId replacement = byte_ids_[static_cast<uint8_t>(r)];
      if (replacement == kNoToken) {
        return Fail(ErrorCode::kInvalid,
                    fmt::format("the text has the byte 0x{:02x}, for which this vocabulary has no "
                                "token; remove it from the text",
                                static_cast<uint8_t>(c)));
      }
      push(replacement);
    }
  }
  if (!symbols.empty()) symbols.back().next = kNone;
  return {};
}

// The queue holds (rank << 32 | position of the left symbol) for pairs that could merge, the lowest
// on top. Entries are not taken out when a neighbour changes; one is stale unless the pair at its
// position still has the entry's rank.
Result<void> ByteLevelBpe::Encode(std::string_view word, BpeWorkspace& workspace,
                                  std::vector<TokenId>& out) const {
  CHECK_LT(word.size(), size_t{1} << 30);
  if (auto ok = LoadSymbols(word, workspace); !ok) return ok;
  auto& symbols = workspace.symbols;
  auto& queue = workspace.queue;
  queue.clear();
  const auto at = [&](int32_t position) -> BpeWorkspace::Symbol& {
    return symbols[static_cast<size_t>(position)];
  };
  const auto entry_at = [&](int32_t position) -> std::optional<uint64_t> {
    const int32_t rank = FindRank(at(position).id, at(at(position).next).id);
    if (rank == kNone) return std::nullopt;
    return (static_cast<uint64_t>(rank) << 32) | static_cast<uint32_t>(position);
  };
  const auto push = [&](int32_t position) {
    if (const auto entry = entry_at(position)) {
      queue.push_back(*entry);
      std::push_heap(queue.begin(), queue.end(), std::greater<>());
    }
  };

  const auto num_symbols = static_cast<int32_t>(symbols.size());
  for (int32_t position = 0; position + 1 < num_symbols; ++position) {
    if (const auto entry = entry_at(position)) queue.push_back(*entry);
  }
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const uint64_t entry = queue.back();
    queue.pop_back();
    const Merge& merge = merges_[static_cast<size_t>(entry >> 32)];
    const auto position = static_cast<int32_t>(entry & 0xFFFFFFFF);
    BpeWorkspace::Symbol& left = at(position);
    if (left.id != merge.left || left.next == kNone) continue;
    BpeWorkspace::Symbol& right = at(left.next);
    if (right.id != merge.right) continue;
    left.id = merge.merged;
    right.id = kNoToken;
    left.next = right.next;
    if (left.next != kNone) {
      at(left.next).previous = position;
      push(position);
    }
    if (left.previous != kNone) push(left.previous);
  }
  for (int32_t position = num_symbols == 0 ? kNone : 0; position != kNone;
       position = at(position).next) {
    out.push_back(at(position).id);
  }
  return {};
}

}  // namespace baton
