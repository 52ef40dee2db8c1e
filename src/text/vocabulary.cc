#include "text/vocabulary.h"

#include <fmt/format.h>

#include <cmath>

#include "text/unicode.h"

namespace baton {
namespace {

tl::unexpected<Error> Corrupt(std::string message) {
  return Fail(ErrorCode::kCorrupt, std::move(message));
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

Result<void> CheckSizes(const VocabularyData& data) {
  const size_t size = data.tokens.size();
  if (size == 0) return Corrupt("tokens: the vocabulary is empty");
  if (size > kMaxVocabularySize) {
    return Corrupt(fmt::format("tokens: {} entries, more than {}", size, kMaxVocabularySize));
  }
  if (data.merges.size() > kMaxMerges) {
    return Corrupt(fmt::format("merges: {} entries, more than {}", data.merges.size(), kMaxMerges));
  }
  const bool sentence_piece = data.kind == VocabularyKind::kSentencePiece;
  if (sentence_piece && data.scores.size() != size) {
    return Corrupt(fmt::format("scores: {} entries for {} tokens", data.scores.size(), size));
  }
  if ((sentence_piece || !data.types.empty()) && data.types.size() != size) {
    return Corrupt(fmt::format("token_type: {} entries for {} tokens", data.types.size(), size));
  }
  return {};
}

Result<void> CheckIds(const VocabularyData& data) {
  struct NamedId {
    const char* name;
    TokenId id;
  };
  const auto size = static_cast<TokenId>(data.tokens.size());
  for (const NamedId& named :
       {NamedId{"bos_token_id", data.bos}, NamedId{"eos_token_id", data.eos},
        NamedId{"eot_token_id", data.eot}, NamedId{"eom_token_id", data.eom},
        NamedId{"unknown_token_id", data.unk}, NamedId{"padding_token_id", data.pad}}) {
    if (named.id != kNoToken && (named.id < 0 || named.id >= size)) {
      return Corrupt(
          fmt::format("{}: {} is not a token of a vocabulary of {}", named.name, named.id, size));
    }
  }
  if (data.add_bos && data.bos == kNoToken) {
    return Corrupt("bos_token_id: missing, but add_bos_token is true");
  }
  if (data.add_eos && data.eos == kNoToken) {
    return Corrupt("eos_token_id: missing, but add_eos_token is true");
  }
  for (const StripRule& rule : data.strip_rules) {
    if (rule.id < 0 || rule.id >= size) {
      return Corrupt(
          fmt::format("strip rule: {} is not a token of a vocabulary of {}", rule.id, size));
    }
  }
  return {};
}

Result<void> CheckPieces(const VocabularyData& data) {
  for (size_t i = 0; i < data.tokens.size(); ++i) {
    const std::string& token = data.tokens[i];
    if (token.size() > kMaxTokenBytes) {
      return Corrupt(fmt::format("tokens: token {} has {} bytes, more than {}", i, token.size(),
                                 kMaxTokenBytes));
    }
    if (!IsValidUtf8(token)) {
      return Corrupt(fmt::format("tokens: token {} is not valid UTF-8", i));
    }
    if (data.types.empty()) continue;
    const PieceType type = data.types[i];
    if (type < PieceType::kNormal || type > PieceType::kByte) {
      return Corrupt(
          fmt::format("token_type: token {} has the unknown type {}", i, static_cast<int>(type)));
    }
    if (type == PieceType::kByte && ByteOfPieceName(token) < 0) {
      return Corrupt(fmt::format("tokens: byte token {} is named \"{}\", not <0x00> to <0xFF>", i,
                                 token.substr(0, 32)));
    }
  }
  for (size_t i = 0; i < data.scores.size(); ++i) {
    if (!std::isfinite(data.scores[i])) {
      return Corrupt(fmt::format("scores: the score of token {} is not a finite number", i));
    }
  }
  return {};
}

}  // namespace

Result<void> ValidateVocabulary(const VocabularyData& data) {
  if (auto ok = CheckSizes(data); !ok) return ok;
  if (auto ok = CheckIds(data); !ok) return ok;
  return CheckPieces(data);
}

int ByteOfPieceName(std::string_view name) {
  if (name.size() != 6 || name.substr(0, 3) != "<0x" || name[5] != '>') return -1;
  const int high = HexDigit(name[3]);
  const int low = HexDigit(name[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

}  // namespace baton
