// Tokenizers on small vocabularies: vectors of independent implementations, and the rules for
// special tokens, prefixes and bytes. Real vocabularies: engine/tokenizer_from_gguf_test.
#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "text/tokenizer_test_vocabulary.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

nlohmann::json ReadTokenizerData(const std::string& name) {
  return ReadJsonFile(BATON_TEST_DATA "/tokenizer/" + name);
}

constexpr EncodeOptions kPlain = {.add_special = false, .parse_special = false};
constexpr EncodeOptions kParse = {.add_special = false, .parse_special = true};
constexpr EncodeOptions kBoth = {.add_special = true, .parse_special = true};
constexpr DecodeOptions kWhole = {.skip_special = false, .starts_text = true};

const std::string kMarker = "\xE2\x96\x81";  // U+2581

// Pieces "a" to "e" and the space marker, with the scores given for longer ones. Control: <unk>,
// <s>, </s>, <pad>.
VocabularyData LetterVocabulary(const std::vector<std::pair<std::string, float>>& pieces) {
  VocabularyData data;
  data.kind = VocabularyKind::kSentencePiece;
  data.tokens = {"<unk>", "<s>", "</s>", "<pad>", "a", "b", "c", "d", "e", kMarker};
  data.scores = std::vector<float>(data.tokens.size(), -100);
  data.types = std::vector<PieceType>(data.tokens.size(), PieceType::kNormal);
  data.types[0] = PieceType::kUnknown;
  for (size_t i = 1; i < 4; ++i) data.types[i] = PieceType::kControl;
  for (const auto& [piece, score] : pieces) {
    data.tokens.push_back(piece);
    data.scores.push_back(score);
    data.types.push_back(PieceType::kNormal);
  }
  data.unk = 0;
  data.bos = 1;
  data.eos = 2;
  return data;
}

class Vectors : public testing::TestWithParam<const char*> {};

TEST_P(Vectors, SmallVocabulariesGiveTheAgreedIds) {
  const nlohmann::json data = ReadTokenizerData(GetParam());
  const Tokenizer tokenizer = MakeTokenizer(SmallVocabulary(data));
  ASSERT_GT(data.at("cases").size(), 200u);
  for (const auto& test : data.at("cases")) {
    const auto text = test.at("text").get<std::string>();
    const auto ids = tokenizer.Encode(text, kPlain);
    ASSERT_TRUE(ids.has_value()) << ids.error().message;
    EXPECT_EQ(*ids, test.at("ids").get<std::vector<TokenId>>()) << text;
    const bool has_marker = text.find(kMarker) != std::string::npos;
    if (!has_marker || std::string(GetParam()) == "small-byte-level.json") {
      EXPECT_EQ(tokenizer.Decode(*ids, kWhole).value(), text);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, Vectors,
                         testing::Values("small-byte-level.json", "small-spm.json"));

// Case T-04 with a space prefix: ids as of an independent implementation, text exactly back.
TEST(SpacePrefix, OnlyTheTextsFirstWordGetsIt) {
  const nlohmann::json data = ReadTokenizerData("small-spm.json");
  const Tokenizer tokenizer = MakeTokenizer(SmallVocabulary(data));
  for (const auto& test : data.at("special_cases")) {
    const auto text = test.at("text").get<std::string>();
    const auto ids = tokenizer.Encode(text, kParse).value();
    EXPECT_EQ(ids, test.at("ids").get<std::vector<TokenId>>()) << text;
    EXPECT_EQ(tokenizer.Decode(ids, kWhole).value(), text);
    // Behind a BOS, added or written, the text is what it is without.
    auto with_bos = ids;
    with_bos.insert(with_bos.begin(), tokenizer.bos());
    EXPECT_EQ(tokenizer.Encode(text, kBoth).value(), with_bos);
    EXPECT_EQ(tokenizer.Encode("<s>" + text, kBoth).value(), with_bos);
    EXPECT_EQ(tokenizer.Encode("<s>" + text, kParse).value(), with_bos);
    EXPECT_EQ(tokenizer.Decode(with_bos, kWhole).value(), "<s>" + text);
    EXPECT_EQ(tokenizer.Decode(with_bos, {.skip_special = true, .starts_text = true}).value(),
              tokenizer.Decode(ids, {.skip_special = true, .starts_text = true}).value());
  }
}

TEST(SpacePrefix, WithTheFlagOffASpecialTokenChangesNothing) {
  VocabularyData data = SmallVocabulary(ReadTokenizerData("small-spm.json"));
  data.add_space_prefix = false;
  const Tokenizer tokenizer = MakeTokenizer(std::move(data));
  for (const std::string text : {"word", " word", "the king", "  x", ""}) {
    const auto ids = tokenizer.Encode(text, kParse).value();
    auto expected = ids;
    expected.insert(expected.begin(), tokenizer.FindSpecial("<pad>").value());
    EXPECT_EQ(tokenizer.Encode("<pad>" + text, kParse).value(), expected);
    EXPECT_EQ(tokenizer.Decode(ids, kWhole).value(), text);
  }
}

// Several BOS at the front are no text either, for encoding and decoding alike.
TEST(SpacePrefix, AnyNumberOfBosStandsBeforeTheText) {
  const Tokenizer tokenizer = MakeTokenizer(SmallVocabulary(ReadTokenizerData("small-spm.json")));
  for (const std::string text : {"word", " word", "  x", "  ", "the king"}) {
    auto expected = tokenizer.Encode(text, kParse).value();
    std::string all = text;
    for (int count = 1; count <= 3; ++count) {
      expected.insert(expected.begin(), tokenizer.bos());
      all.insert(0, "<s>");
      EXPECT_EQ(tokenizer.Encode(all, kParse).value(), expected) << all;
      EXPECT_EQ(tokenizer.Decode(expected, kWhole).value(), all);
    }
  }
}

TEST(SpacePrefix, AContinuationKeepsItsSpace) {
  const Tokenizer tokenizer = MakeTokenizer(SmallVocabulary(ReadTokenizerData("small-spm.json")));
  const auto ids = tokenizer.Encode("word", kPlain).value();
  EXPECT_EQ(tokenizer.Decode(ids, {.skip_special = false, .starts_text = true}).value(), "word");
  EXPECT_EQ(tokenizer.Decode(ids, {.skip_special = false, .starts_text = false}).value(), " word");
}

// Case T-01 (c), (d) and the end of text, on a vocabulary that adds both.
TEST(BeginAndEnd, ComeOnceWhoeverBringsThem) {
  VocabularyData data = LetterVocabulary({});
  data.add_bos = data.add_eos = true;
  const Tokenizer tokenizer = MakeTokenizer(data);
  EXPECT_THAT(tokenizer.Encode("ab", kBoth).value(), ElementsAre(1, 4, 5, 2));
  EXPECT_THAT(tokenizer.Encode("<s>ab", kBoth).value(), ElementsAre(1, 4, 5, 2));
  EXPECT_THAT(tokenizer.Encode("<s>ab</s>", kBoth).value(), ElementsAre(1, 4, 5, 2));
  EXPECT_THAT(tokenizer.Encode("", kBoth).value(), ElementsAre(1, 2));
  EXPECT_THAT(tokenizer.Encode("ab", kPlain).value(), ElementsAre(4, 5));
  data.add_bos = data.add_eos = false;
  const Tokenizer adds_none = MakeTokenizer(data);
  EXPECT_THAT(adds_none.Encode("<s>ab", kBoth).value(), ElementsAre(1, 4, 5));
  EXPECT_THAT(adds_none.Encode("ab", kBoth).value(), ElementsAre(4, 5));
}

TEST(SentencePiece, TheBestScoreMergesFirstThenTheLeftmost) {
  const Tokenizer tokenizer = MakeTokenizer(LetterVocabulary({{"ab", -2}, {"bc", -1}, {"aa", -3}}));
  EXPECT_THAT(tokenizer.Encode("abc", kPlain).value(), ElementsAre(4, 11));  // a + bc, no a-bc
  EXPECT_THAT(tokenizer.Encode("ab", kPlain).value(), ElementsAre(10));
  EXPECT_THAT(tokenizer.Encode("aaa", kPlain).value(), ElementsAre(12, 4));  // the left pair
  EXPECT_THAT(tokenizer.Encode("aab", kPlain).value(), ElementsAre(4, 10));
}

// "abc" is only reachable over the unused "ab", and "ab" alone falls apart again.
TEST(SentencePiece, UnusedPiecesAreStepsButNeverResults) {
  VocabularyData data = LetterVocabulary({{"ab", -1}, {"abc", -2}});
  data.types[10] = PieceType::kUnused;
  const Tokenizer tokenizer = MakeTokenizer(std::move(data));
  EXPECT_THAT(tokenizer.Encode("abc", kPlain).value(), ElementsAre(11));
  EXPECT_THAT(tokenizer.Encode("abd", kPlain).value(), ElementsAre(4, 5, 7));
}

TEST(SentencePiece, UserDefinedPiecesAreMatchedFirst) {
  VocabularyData data = LetterVocabulary({{"ab", -1}, {"bc", -1}, {"  ", -1}, {"bcd", -1}});
  data.types[11] = data.types[12] = data.types[13] = PieceType::kUserDefined;
  const Tokenizer tokenizer = MakeTokenizer(std::move(data));
  EXPECT_THAT(tokenizer.Encode("abc", kPlain).value(), ElementsAre(4, 11));  // not ab + c
  EXPECT_THAT(tokenizer.Encode("abcde", kPlain).value(), ElementsAre(4, 13, 8));
  EXPECT_THAT(tokenizer.Encode("a   a", kPlain).value(), ElementsAre(4, 12, 9, 4));
  EXPECT_EQ(tokenizer.Piece(12), "  ");
}

TEST(SentencePiece, WithoutBytePiecesCharactersBecomeUnknown) {
  VocabularyData data = LetterVocabulary({});
  EXPECT_THAT(MakeTokenizer(data).Encode("a\xC3\xA9z", kPlain).value(), ElementsAre(4, 0, 0));
  data.unk = kNoToken;
  const auto result = MakeTokenizer(data).Encode("a\xC3\xA9", kPlain);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(result.error().message, HasSubstr("\xC3\xA9"));
}

TEST(SentencePiece, ExtraWhitespaceGoesWhereTheVocabularySaysSo) {
  VocabularyData data = LetterVocabulary({});
  data.remove_extra_whitespaces = true;
  const Tokenizer tokenizer = MakeTokenizer(std::move(data));
  EXPECT_THAT(tokenizer.Encode("  a   b ", kPlain).value(), ElementsAre(4, 9, 5));
  EXPECT_THAT(tokenizer.Encode("   ", kPlain).value(), ElementsAre());
}

TEST(SpecialTokens, AreOrdinaryTextUnlessParsed) {
  const Tokenizer tokenizer =
      MakeTokenizer(SmallVocabulary(ReadTokenizerData("small-byte-level.json")));
  const TokenId end = tokenizer.FindSpecial("<|im_end|>").value();
  EXPECT_THAT(tokenizer.Encode("<|im_end|>", kParse).value(), ElementsAre(end));
  const auto spelled = tokenizer.Encode("<|im_end|>", kPlain).value();
  EXPECT_GT(spelled.size(), 1u);
  for (const TokenId id : spelled) EXPECT_FALSE(tokenizer.IsControl(id));
  EXPECT_FALSE(tokenizer.FindSpecial("<|im_end").has_value());
  EXPECT_FALSE(tokenizer.FindSpecial("the").has_value());
  EXPECT_THAT(tokenizer.EndTokens(), ElementsAre(698, 699));
  EXPECT_EQ(tokenizer.Decode(std::vector<TokenId>{end}, {.skip_special = true}).value(), "");
}

// The flags of added tokens are in no GGUF file; a vocabulary made by hand has them.
TEST(SpecialTokens, StripRulesSwallowBlanks) {
  VocabularyData data = SmallVocabulary(ReadTokenizerData("small-byte-level.json"));
  data.strip_rules = {{.id = 699, .strip_left = true, .strip_right = true}};
  const Tokenizer tokenizer = MakeTokenizer(std::move(data));
  const auto ids = [&](const std::string& text) { return tokenizer.Encode(text, kParse).value(); };
  EXPECT_EQ(ids("x \n<|im_end|>\xE3\x80\x80 y"), ids("x<|im_end|>y"));
  EXPECT_EQ(ids("x <|endoftext|> y").size(),
            ids("x").size() + ids(" ").size() + 1 + ids(" y").size());
  EXPECT_EQ(ids(" \xFF <|im_end|>").back(), 699);
}

TEST(ByteLevel, MissingBytesCountAsTheReplacementCharacter) {
  VocabularyData data;
  data.pre = "gpt-2";
  data.tokens = {"a", "b", "ab", "\xC3\xAF", "\xC2\xBB", "\xC2\xBF"};  // a b ab EF BB BF
  data.merges = {"a b"};
  EXPECT_EQ(MakeTokenizer(data).Encode("abc", kPlain).error().code, ErrorCode::kInvalid);
  data.tokens[4] = "\xC2\xBD";  // byte BD: now U+FFFD can be spelled
  const Tokenizer tokenizer = MakeTokenizer(data);
  const auto ids = tokenizer.Encode("abc", kPlain);
  ASSERT_TRUE(ids.has_value()) << ids.error().message;
  EXPECT_THAT(*ids, ElementsAre(2, 3, 5, 4));
  EXPECT_EQ(tokenizer.Decode(*ids, kWhole).value(), "ab\xEF\xBF\xBD");
}

// The merges' way to "abc" is closed (bc merges first); a family that keeps whole words takes it.
TEST(ByteLevel, IgnoreMergesTakesWholeWords) {
  VocabularyData data;
  data.pre = "gpt-2";
  data.tokens = {"a", "b", "c", "bc", "ab", "abc"};
  data.merges = {"b c", "a b", "ab c"};
  EXPECT_THAT(MakeTokenizer(data).Encode("abc", kPlain).value(), ElementsAre(0, 3));
  data.pre = "llama-bpe";
  EXPECT_THAT(MakeTokenizer(data).Encode("abc", kPlain).value(), ElementsAre(5));
  data.types = std::vector<PieceType>(6, PieceType::kNormal);
  data.types[5] = PieceType::kControl;  // a control token is never made from ordinary text
  data.merges.pop_back();
  EXPECT_THAT(MakeTokenizer(data).Encode("abc", kPlain).value(), ElementsAre(0, 3));
}

TEST(ByteLevel, FamiliesTrainedOnNfcGetIt) {
  VocabularyData data = SmallVocabulary(ReadTokenizerData("small-byte-level.json"));
  data.pre = "qwen2";
  const Tokenizer tokenizer = MakeTokenizer(std::move(data));
  EXPECT_EQ(tokenizer.Encode("e\xCC\x81", kPlain).value(),
            tokenizer.Encode("\xC3\xA9", kPlain).value());
  // Normalising must not touch ill-formed bytes beside the text.
  const auto ids = tokenizer
                       .Encode(
                           "\xFF"
                           "e\xCC\x81\xCC",
                           kPlain)
                       .value();
  EXPECT_EQ(tokenizer.Decode(ids, kWhole).value(), "\xFF\xC3\xA9\xCC");
}

TEST(AnyBytes, ComeBackFromBothKinds) {
  const Tokenizer byte_level =
      MakeTokenizer(SmallVocabulary(ReadTokenizerData("small-byte-level.json")));
  const Tokenizer spm = MakeTokenizer(SmallVocabulary(ReadTokenizerData("small-spm.json")));
  std::mt19937 random(23);
  for (int round = 0; round < 3000; ++round) {
    std::string text(random() % 30, ' ');
    for (char& c : text) {
      c = random() % 2 == 0 ? static_cast<char>(random()) : "\xE2\x96 the\xC3\xA9"[random() % 8];
    }
    EXPECT_EQ(byte_level.Decode(byte_level.Encode(text, kPlain).value(), kWhole).value(), text);
    if (text.find(kMarker) != std::string::npos) continue;
    EXPECT_EQ(spm.Decode(spm.Encode(text, kPlain).value(), kWhole).value(), text);
  }
}

TEST(Limits, OverlongTextsAndForeignIdsAreRefused) {
  const Tokenizer tokenizer =
      MakeTokenizer(SmallVocabulary(ReadTokenizerData("small-byte-level.json")));
  const auto result = tokenizer.Encode(std::string(kMaxTextBytes + 1, 'a'), kPlain);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kExhausted);
  for (const TokenId id : {-1, 700}) {
    EXPECT_FALSE(tokenizer.IsToken(id));
    EXPECT_EQ(tokenizer.Decode(std::vector<TokenId>{id}, kWhole).error().code, ErrorCode::kInvalid);
  }
}

TEST(Threads, ManyEncodeAtOnce) {
  const Tokenizer tokenizer =
      MakeTokenizer(SmallVocabulary(ReadTokenizerData("small-byte-level.json")));
  const std::string text = "In the beginning God created the heaven and the earth. 123 \xC3\xA9";
  const auto right = tokenizer.Encode(text, kPlain).value();
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (int& count : wrong) {
    threads.emplace_back([&tokenizer, &text, &right, &count] {
      for (int i = 0; i < 200; ++i) count += tokenizer.Encode(text, kPlain).value() != right;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0, 0));
}

}  // namespace
}  // namespace baton
