#include "engine/answer_text.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "text/vocabulary.h"

namespace baton {
namespace {

// <unk>, <s>, </s>, [CALLS], then two bytes of "é", and a word.
Tokenizer SmallTokenizer() {
  VocabularyData data;
  data.kind = VocabularyKind::kSentencePiece;
  data.tokens = {"<unk>", "<s>", "</s>", "[CALLS]", "<0xC3>", "<0xA9>", "word"};
  data.types = {PieceType::kUnknown, PieceType::kControl, PieceType::kControl, PieceType::kControl,
                PieceType::kByte,    PieceType::kByte,    PieceType::kNormal};
  data.scores.resize(data.tokens.size(), 0.0F);
  data.bos = 1;
  data.eos = 2;
  data.unk = 0;
  Result<Tokenizer> tokenizer = Tokenizer::Make(std::move(data));
  EXPECT_TRUE(tokenizer.has_value());
  return *std::move(tokenizer);
}

std::string TextOf(const Tokenizer& tokenizer, const std::vector<TokenId>& shown,
                   const std::vector<std::string>& stops, const std::vector<TokenId>& tokens) {
  Result<AnswerText> text =
      AnswerText::Make({.tokenizer = tokenizer, .stop_strings = stops, .shown_tokens = shown});
  EXPECT_TRUE(text.has_value());
  std::string all;
  for (const TokenId token : tokens) all += text->Push(token);
  return all + std::string(text->Finish());
}

TEST(AnswerText, ShowsTheNamesOfControlTokensThatAreAskedFor) {
  const Tokenizer tokenizer = SmallTokenizer();
  const std::vector<TokenId> tokens = {6, 1, 3, 4, 5, 3, 6};
  EXPECT_EQ(TextOf(tokenizer, {}, {}, tokens), "wordéword");
  EXPECT_EQ(TextOf(tokenizer, {3}, {}, tokens), "word[CALLS]é[CALLS]word");
  // Stop strings see them, too.
  EXPECT_EQ(TextOf(tokenizer, {3}, {"é[C"}, tokens), "word[CALLS]");
  // Half a character before one stays half.
  EXPECT_EQ(TextOf(tokenizer, {3}, {}, {4, 3, 5}), "\xC3[CALLS]\xA9");
}

}  // namespace
}  // namespace baton
