#include "text/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "text/bpe_alphabet.h"
#include "text/unicode.h"
#include "text/vocabulary_index.h"

namespace baton {
namespace {

using ::testing::StartsWith;

VocabularyData SmallSentencePiece() {
  VocabularyData data;
  data.kind = VocabularyKind::kSentencePiece;
  data.tokens = {"<unk>", "<s>", "a", "<0x41>"};
  data.scores = {0, 0, -1, 0};
  data.types = {PieceType::kUnknown, PieceType::kControl, PieceType::kNormal, PieceType::kByte};
  data.bos = 1;
  data.unk = 0;
  return data;
}

TEST(Validation, NamesTheField) {
  struct Case {
    const char* field;
    std::function<void(VocabularyData&)> change;
  };
  const std::vector<Case> cases = {
      {"tokens: ", [](auto& d) { d.tokens.clear(); }},
      {"scores: ", [](auto& d) { d.scores.pop_back(); }},
      {"scores: ", [](auto& d) { d.scores[2] = std::numeric_limits<float>::quiet_NaN(); }},
      {"token_type: ", [](auto& d) { d.types.pop_back(); }},
      {"token_type: ", [](auto& d) { d.types.clear(); }},
      {"token_type: ", [](auto& d) { d.types[2] = static_cast<PieceType>(7); }},
      {"tokens: ", [](auto& d) { d.tokens[3] = "<0xQQ>"; }},
      {"tokens: ", [](auto& d) { d.tokens[2] = std::string(kMaxTokenBytes + 1, 'x'); }},
      {"tokens: ", [](auto& d) { d.tokens[2] = "\xFF"; }},
      {"bos_token_id: ", [](auto& d) { d.bos = 4; }},
      {"eos_token_id: ", [](auto& d) { d.eos = -2; }},
      {"eot_token_id: ", [](auto& d) { d.eot = 4; }},
      {"eom_token_id: ", [](auto& d) { d.eom = 4; }},
      {"unknown_token_id: ", [](auto& d) { d.unk = 4; }},
      {"padding_token_id: ", [](auto& d) { d.pad = 4; }},
      {"bos_token_id: ",
       [](auto& d) {
         d.bos = kNoToken;
         d.add_bos = true;
       }},
      {"eos_token_id: ", [](auto& d) { d.add_eos = true; }},
      {"strip rule: ", [](auto& d) { d.strip_rules.push_back({.id = 4}); }},
  };
  ASSERT_TRUE(ValidateVocabulary(SmallSentencePiece()).has_value());
  for (size_t i = 0; i < cases.size(); ++i) {
    VocabularyData data = SmallSentencePiece();
    cases[i].change(data);
    const auto result = ValidateVocabulary(data);
    ASSERT_FALSE(result.has_value()) << i;
    EXPECT_EQ(result.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(result.error().message, StartsWith(cases[i].field)) << i;
  }
}

TEST(BytePieces, HaveTwoHexDigits) {
  EXPECT_EQ(ByteOfPieceName("<0x00>"), 0);
  EXPECT_EQ(ByteOfPieceName("<0xFF>"), 255);
  EXPECT_EQ(ByteOfPieceName("<0x0a>"), 10);
  for (const char* name : {"", "<0x-2>", "<0xQQ>", "<0x1>", "<0x123>", "0x12", "<0X12>", "<0x12",
                           "<0x 2>", "<0x+2>"}) {
    EXPECT_EQ(ByteOfPieceName(name), -1) << name;
  }
}

// The 256 characters of GPT-2's encoder, made here by its rule: printable ones first.
TEST(ByteLevelAlphabet, CoversEachByteOnce) {
  std::set<std::string> bytes;
  int characters = 0;
  for (uint32_t code_point = 0; code_point < 0x400; ++code_point) {
    std::string piece;
    AppendUtf8(code_point, piece);
    const auto decoded = BytesOfByteLevelPiece(piece);
    if (!decoded) continue;
    ++characters;
    EXPECT_EQ(decoded->size(), 1u);
    bytes.insert(*decoded);
  }
  EXPECT_EQ(characters, 256);
  EXPECT_EQ(bytes.size(), 256u);
  EXPECT_EQ(BytesOfByteLevelPiece("\xC4\xA0the").value(), " the");  // U+0120
  EXPECT_EQ(BytesOfByteLevelPiece("\xC4\x8A").value(), "\n");       // U+010A
  EXPECT_EQ(BytesOfByteLevelPiece("\xC3\xA9").value(), "\xE9");
  EXPECT_FALSE(BytesOfByteLevelPiece("a b").has_value());
  EXPECT_FALSE(BytesOfByteLevelPiece("\xE2\x80\xBC").has_value());
}

TEST(PieceIndex, FindsWhatWasInsertedAndNothingElse) {
  PieceTable table;
  PieceIndex index(1000);
  for (TokenId id = 0; id < 1000; ++id) {
    table.Append(id == 7 ? "" : "piece" + std::to_string(id % 990));
    index.Insert(table, id);
  }
  EXPECT_EQ(index.Find(table, "piece5"), 5);  // 995 has the same text; the first stays
  EXPECT_EQ(index.Find(table, "piece989"), 989);
  EXPECT_EQ(index.Find(table, "piece990"), kNoToken);
  EXPECT_EQ(index.Find(table, "piece"), kNoToken);
  EXPECT_EQ(index.Find(table, ""), kNoToken);
  EXPECT_EQ(table[7], "");
  EXPECT_EQ(table[999], "piece9");
}

}  // namespace
}  // namespace baton
