// Any bytes, through a byte-level and a SentencePiece vocabulary and back.
//
// The first byte chooses how special tokens are treated. Broken if: something crashes, a lossless
// vocabulary does not give the bytes back, or the streaming detokenizer differs from the whole.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "text/detokenizer.h"
#include "text/spm.h"
#include "text/tokenizer.h"
#include "text/unicode.h"
#include "text/vocabulary.h"

namespace {

using baton::PieceType;
using baton::TokenId;

void AddPiece(baton::VocabularyData& data, std::string piece, PieceType type) {
  data.tokens.push_back(std::move(piece));
  data.types.push_back(type);
}

// All 256 bytes in the byte-level alphabet, a few merges that overlap, and added tokens of which
// one starts like another.
baton::VocabularyData ByteLevelData() {
  baton::VocabularyData data;
  data.pre = "llama-bpe";
  uint32_t stand_in = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    std::string piece;
    baton::AppendUtf8(printable ? byte : stand_in++, piece);
    AddPiece(data, std::move(piece), PieceType::kNormal);
  }
  const std::pair<const char*, const char*> merges[] = {
      {"a", "b"}, {"b", "c"}, {"ab", "c"}, {"a", "a"}, {"aa", "aa"}, {"\xC4\xA0", "a"}};
  for (const auto& [left, right] : merges) {
    AddPiece(data, std::string(left) + right, PieceType::kNormal);
    data.merges.push_back(std::string(left) + " " + right);
  }
  AddPiece(data, "<e>", PieceType::kControl);
  AddPiece(data, "<e>f", PieceType::kUserDefined);
  data.bos = data.eos = static_cast<TokenId>(data.tokens.size()) - 2;
  return data;
}

// Byte pieces, letters with scores, an unused step, spaces as user-defined pieces, a space prefix.
baton::VocabularyData SentencePieceData() {
  baton::VocabularyData data;
  data.kind = baton::VocabularyKind::kSentencePiece;
  AddPiece(data, "<unk>", PieceType::kUnknown);
  AddPiece(data, "<s>", PieceType::kControl);
  AddPiece(data, "<e>", PieceType::kControl);
  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (size_t byte = 0; byte < 256; ++byte) {
    AddPiece(data, std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">", PieceType::kByte);
  }
  const std::string marker(baton::kSpaceMarker);
  for (const std::string& piece : {std::string("a"), std::string("b"), std::string("c"), marker,
                                   std::string("ab"), std::string("bc"), std::string("abc"),
                                   marker + "a", std::string("\xC3\xA9"), "b" + marker + "c"}) {
    AddPiece(data, piece, PieceType::kNormal);
  }
  AddPiece(data, "aa", PieceType::kUnused);
  AddPiece(data, "aab", PieceType::kNormal);
  AddPiece(data, "   ", PieceType::kUserDefined);
  for (size_t i = 0; i < data.tokens.size(); ++i) {
    data.scores.push_back(-static_cast<float>(i % 7));
  }
  data.unk = 0;
  data.bos = 1;
  data.add_space_prefix = true;
  return data;
}

baton::VocabularyData TrimmingData() {
  baton::VocabularyData data = SentencePieceData();
  data.remove_extra_whitespaces = true;
  return data;
}

baton::Tokenizer Make(baton::VocabularyData data) {
  auto tokenizer = baton::Tokenizer::Make(std::move(data));
  CHECK(tokenizer.has_value());
  return std::move(*tokenizer);
}

void CheckRoundTrip(const baton::Tokenizer& tokenizer, std::string_view text, bool lossless,
                    const baton::EncodeOptions& options) {
  const auto ids = tokenizer.Encode(text, options);
  CHECK(ids.has_value());
  const baton::DecodeOptions whole = {.skip_special = false, .starts_text = true};
  const auto decoded = tokenizer.Decode(*ids, whole);
  CHECK(decoded.has_value());
  if (lossless) CHECK(*decoded == text);
  baton::Detokenizer detokenizer(tokenizer, whole);
  std::string joined;
  for (const TokenId id : *ids) joined += detokenizer.Push(id);
  const std::string last = detokenizer.Finish();
  CHECK_LE(last.size(), 3u);
  CHECK(joined + last == *decoded);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const baton::Tokenizer byte_level = Make(ByteLevelData());
  static const baton::Tokenizer sentence_piece = Make(SentencePieceData());
  static const baton::Tokenizer trims = Make(TrimmingData());
  if (size == 0) return 0;
  const baton::EncodeOptions options = {.add_special = false, .parse_special = data[0] % 2 == 1};
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  CheckRoundTrip(byte_level, text, true, options);
  const bool has_marker = text.find(baton::kSpaceMarker) != std::string_view::npos;
  CheckRoundTrip(sentence_piece, text, !has_marker, options);
  CheckRoundTrip(trims, text, false, options);
  return 0;
}
