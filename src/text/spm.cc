#include "text/spm.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "base/check.h"
#include "text/unicode.h"

namespace baton {
namespace {

constexpr int32_t kNone = -1;

bool IsTextPiece(PieceType type) {
  return type == PieceType::kNormal || type == PieceType::kUserDefined ||
         type == PieceType::kUnused;
}

std::string Replace(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  size_t position = 0;
  for (size_t found = text.find(from); found != std::string_view::npos;
       found = text.find(from, position)) {
    out.append(text.substr(position, found - position));
    out.append(to);
    position = found + from.size();
  }
  out.append(text.substr(position));
  return out;
}

// Places of scores among the distinct ones, the highest first.
std::vector<int32_t> RankScores(const std::vector<float>& scores) {
  std::vector<float> sorted = scores;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::vector<int32_t> ranks;
  ranks.reserve(scores.size());
  for (const float score : scores) {
    const auto place = std::lower_bound(sorted.begin(), sorted.end(), score, std::greater<>());
    ranks.push_back(static_cast<int32_t>(place - sorted.begin()));
  }
  return ranks;
}

}  // namespace

std::string MarkSpaces(std::string_view text) {
  return Replace(text, " ", kSpaceMarker);
}

std::string UnmarkSpaces(std::string_view piece) {
  return Replace(piece, kSpaceMarker, " ");
}

// A symbol is a stretch of the text; the ones merged into their left neighbour have length 0.
struct SentencePieceBpe::Workspace {
  struct Symbol {
    int32_t begin;
    int32_t length;
    int32_t previous;
    int32_t next;
  };
  struct Candidate {
    uint64_t order;  // rank << 32 | position of the left symbol; the lowest merges first
    TokenId merged;

    friend bool operator>(const Candidate& a, const Candidate& b) { return a.order > b.order; }
  };
  std::vector<Symbol> symbols;
  std::vector<Candidate> queue;
  // How an unused piece came about; it is split that way again in the result.
  std::unordered_map<TokenId, std::pair<std::string_view, std::string_view>> parts_of_unused;

  Symbol& At(int32_t position) { return symbols[static_cast<size_t>(position)]; }
};

SentencePieceBpe::SentencePieceBpe(const VocabularyData& data)
    : index_(data.tokens.size()), ranks_(RankScores(data.scores)), unk_(data.unk) {
  byte_ids_.fill(kNoToken);
  AddPieces(data);
  FindJoinableBytes(data);
}

void SentencePieceBpe::AddPieces(const VocabularyData& data) {
  std::vector<AddedToken> user_defined;
  unused_.resize(data.tokens.size());
  for (size_t i = 0; i < data.tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const PieceType type = data.types[i];
    const bool user_defined_piece = type == PieceType::kUserDefined;
    // Files write user-defined pieces as plain text, with spaces as spaces.
    const std::string token = user_defined_piece ? MarkSpaces(data.tokens[i]) : data.tokens[i];
    table_.Append(token);
    if (IsTextPiece(type)) index_.Insert(table_, id);
    if (user_defined_piece) user_defined.push_back({token, id});
    if (type == PieceType::kUnused) unused_[i] = has_unused_ = true;
    if (type == PieceType::kByte) {
      TokenId& slot = byte_ids_[static_cast<size_t>(ByteOfPieceName(token))];
      if (slot == kNoToken) slot = id;
    }
  }
  user_defined_ = AddedTokens(std::move(user_defined));
}

void SentencePieceBpe::FindJoinableBytes(const VocabularyData& data) {
  for (size_t i = 0; i < data.tokens.size(); ++i) {
    if (!IsTextPiece(data.types[i])) continue;
    const std::string_view token = table_[static_cast<TokenId>(i)];
    for (size_t at = token.find(kSpaceMarker, 1); at != std::string_view::npos;
         at = token.find(kSpaceMarker, at + 1)) {
      joins_marker_.set(static_cast<uint8_t>(token[at - 1]));
    }
  }
}

Result<void> SentencePieceBpe::Encode(std::string_view marked, std::vector<TokenId>& out) const {
  CHECK_LT(marked.size(), size_t{1} << 30);
  Workspace workspace;
  size_t position = 0;
  while (auto match = user_defined_.FindNext(marked, position)) {
    const std::string_view before = marked.substr(position, match->begin - position);
    if (auto ok = EncodeBetween(before, workspace, out); !ok) return ok;
    out.push_back(match->id);
    position = match->end;
  }
  return EncodeBetween(marked.substr(position), workspace, out);
}

// Cuts before every U+2581 that no piece reaches across, so that most merging happens in stretches
// of a word's size.
Result<void> SentencePieceBpe::EncodeBetween(std::string_view marked, Workspace& workspace,
                                             std::vector<TokenId>& out) const {
  size_t begin = 0;
  for (size_t at = marked.find(kSpaceMarker, 1); at != std::string_view::npos;
       at = marked.find(kSpaceMarker, at + 1)) {
    if (joins_marker_.test(static_cast<uint8_t>(marked[at - 1]))) continue;
    if (auto ok = EncodeStretch(marked.substr(begin, at - begin), workspace, out); !ok) return ok;
    begin = at;
  }
  return EncodeStretch(marked.substr(begin), workspace, out);
}

void SentencePieceBpe::LoadSymbols(std::string_view stretch, Workspace& workspace) const {
  auto& symbols = workspace.symbols;
  symbols.clear();
  for (size_t position = 0; position < stretch.size();) {
    const Utf8Step step = StepUtf8(stretch, position);
    // Ill-formed bytes stand alone, so that each becomes its own byte piece.
    const size_t length = step.valid ? step.length : 1;
    const auto index = static_cast<int32_t>(symbols.size());
    symbols.push_back(
        {static_cast<int32_t>(position), static_cast<int32_t>(length), index - 1, index + 1});
    position += length;
  }
  if (!symbols.empty()) symbols.back().next = kNone;
}

void SentencePieceBpe::PushPair(std::string_view stretch, int32_t left,
                                Workspace& workspace) const {
  const Workspace::Symbol& first = workspace.At(left);
  const Workspace::Symbol& second = workspace.At(first.next);
  const std::string_view joined = stretch.substr(static_cast<size_t>(first.begin),
                                                 static_cast<size_t>(first.length + second.length));
  const TokenId merged = index_.Find(table_, joined);
  if (merged == kNoToken) return;
  const auto rank = static_cast<uint64_t>(ranks_[static_cast<size_t>(merged)]);
  workspace.queue.push_back({(rank << 32) | static_cast<uint32_t>(left), merged});
  if (has_unused_ && unused_[static_cast<size_t>(merged)]) {
    const auto split = static_cast<size_t>(first.length);
    workspace.parts_of_unused[merged] = {joined.substr(0, split), joined.substr(split)};
  }
}

// Queue entries are not taken out when a neighbour changes: an entry is stale unless the pair at
// its position still has the merged piece's length, and with it, being text from one place, its
// bytes.
Result<void> SentencePieceBpe::EncodeStretch(std::string_view stretch, Workspace& workspace,
                                             std::vector<TokenId>& out) const {
  if (stretch.empty()) return {};
  LoadSymbols(stretch, workspace);
  auto& queue = workspace.queue;
  queue.clear();
  workspace.parts_of_unused.clear();
  const auto num_symbols = static_cast<int32_t>(workspace.symbols.size());
  for (int32_t position = 0; position + 1 < num_symbols; ++position) {
    PushPair(stretch, position, workspace);
  }
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  const auto push = [&](int32_t position) {
    const size_t before = queue.size();
    PushPair(stretch, position, workspace);
    if (queue.size() > before) std::push_heap(queue.begin(), queue.end(), std::greater<>());
  };
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const Workspace::Candidate candidate = queue.back();
    queue.pop_back();
    const auto position = static_cast<int32_t>(candidate.order & 0xFFFFFFFF);
    Workspace::Symbol& left = workspace.At(position);
    if (left.length == 0 || left.next == kNone) continue;
    Workspace::Symbol& right = workspace.At(left.next);
    if (static_cast<size_t>(left.length + right.length) != table_[candidate.merged].size())
      continue;
    left.length += right.length;
    left.next = right.next;
    right.length = 0;
    if (left.next != kNone) {
      workspace.At(left.next).previous = position;
      push(position);
    }
    if (left.previous != kNone) push(left.previous);
  }
  for (int32_t position = 0; position != kNone; position = workspace.At(position).next) {
    const Workspace::Symbol& symbol = workspace.At(position);
    const std::string_view bytes =
        stretch.substr(static_cast<size_t>(symbol.begin), static_cast<size_t>(symbol.length));
    if (auto ok = EmitPiece(bytes, workspace, out); !ok) return ok;
  }
  return {};
}

// Unused pieces may be steps on the way to others but never stand in a result.
Result<void> SentencePieceBpe::EmitPiece(std::string_view bytes, const Workspace& workspace,
                                         std::vector<TokenId>& out) const {
  std::vector<std::string_view> pending = {bytes};
  while (!pending.empty()) {
    const std::string_view piece = pending.back();
    pending.pop_back();
    const TokenId id = index_.Find(table_, piece);
    if (id == kNoToken) {
      if (auto ok = EmitBytes(piece, out); !ok) return ok;
      continue;
    }
    const auto parts = unused_[static_cast<size_t>(id)] ? workspace.parts_of_unused.find(id)
                                                        : workspace.parts_of_unused.end();
    if (parts == workspace.parts_of_unused.end()) {
      out.push_back(id);
    } else {
      pending.push_back(parts->second.second);
      pending.push_back(parts->second.first);
    }
  }
  return {};
}

Result<void> SentencePieceBpe::EmitBytes(std::string_view bytes, std::vector<TokenId>& out) const {
  const bool all_known = std::all_of(bytes.begin(), bytes.end(), [this](char c) {
    return byte_ids_[static_cast<uint8_t>(c)] != kNoToken;
  });
  if (all_known) {
    for (const char c : bytes) out.push_back(byte_ids_[static_cast<uint8_t>(c)]);
    return {};
  }
  if (unk_ == kNoToken) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("the text has the character \"{}\", for which this vocabulary has no "
                            "token; remove it from the text",
                            ReplaceInvalidUtf8(bytes)));
  }
  out.push_back(unk_);
  return {};
}

}  // namespace baton
