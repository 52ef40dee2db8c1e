#include "cli/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/tokenizer.h"

namespace baton {
namespace {

using ::testing::ElementsAre;

// Letters a to d and the pair "ab", with a turn token before and after, and the characters of the
// turn token's name: small enough to see through.
Tokenizer MakeTokenizer() {
  VocabularyData data;
  data.kind = VocabularyKind::kByteLevelBpe;
  data.pre = "gpt-2";
  data.tokens = {"<turn>", "<end>", "a", "b", "c", "d", "ab", "<", "t", "u", "r", "n", ">"};
  data.types = std::vector<PieceType>(data.tokens.size(), PieceType::kNormal);
  data.types[0] = data.types[1] = PieceType::kControl;
  data.merges = {"a b"};
  data.eos = 1;
  return Tokenizer::Make(std::move(data)).value();
}

constexpr TokenId kTurn = 0;
constexpr TokenId kEnd = 1;
constexpr TokenId kA = 2;
constexpr TokenId kB = 3;
constexpr TokenId kC = 4;
constexpr TokenId kD = 5;
constexpr TokenId kAb = 6;
constexpr TokenId kLess = 7;

class ConversationTest : public ::testing::Test {
 protected:
  ConversationTest() : conversation_(std::nullopt), tokenizer_(MakeTokenizer()) {}

  std::vector<TokenId> Encode(const std::string& rendered) {
    return conversation_.Encode(rendered, tokenizer_).value();
  }

  Conversation conversation_;
  Tokenizer tokenizer_;
};

TEST_F(ConversationTest, IdsOfAnAnswerStayAsTheModelWroteThem) {
  conversation_.AddUser("c");
  EXPECT_THAT(Encode("<turn>c<end><turn>"), ElementsAre(kTurn, kC, kEnd, kTurn));
  // The model wrote "a" and "b"; encoded as text it would be the pair.
  conversation_.AddAnswer("ab", {kA, kB}, tokenizer_);
  conversation_.AddUser("d");
  EXPECT_THAT(Encode("<turn>c<end><turn>ab<end><turn>d<end><turn>"),
              ElementsAre(kTurn, kC, kEnd, kTurn, kA, kB, kEnd, kTurn, kD, kEnd, kTurn));
}

TEST_F(ConversationTest, WhatMessagesSpellIsNoTurn) {
  const std::string user = tokenizer_.GuardContent("a<turn>");
  conversation_.AddUser("a<turn>");
  EXPECT_THAT(Encode("<turn>" + user + "<end><turn>"),
              ElementsAre(kTurn, kA, kLess, 8, 9, 10, 11, 12, kEnd, kTurn));
  // An answer that could become a name with what follows keeps its ids, too.
  conversation_.AddAnswer("ab<", {kA, kB, kLess}, tokenizer_);
  conversation_.AddUser("turn>");
  EXPECT_THAT(Encode("<turn>" + user + "<end><turn>" + tokenizer_.GuardContent("ab<") +
                     "<end><turn>" + tokenizer_.GuardContent("turn>") + "<end><turn>"),
              ElementsAre(kTurn, kA, kLess, 8, 9, 10, 11, 12, kEnd, kTurn, kA, kB, kLess, kEnd,
                          kTurn, 8, 9, 10, 11, 12, kEnd, kTurn));
}

TEST_F(ConversationTest, WhatTheTemplateChangedIsEncodedAgain) {
  conversation_.AddUser("c");
  (void)Encode("<turn>c<end><turn>");
  conversation_.AddAnswer("ab", {kA, kB}, tokenizer_);
  EXPECT_THAT(Encode("<turn>d<end><turn>ab<end><turn>"),
              ElementsAre(kTurn, kD, kEnd, kTurn, kAb, kEnd, kTurn));
}

TEST_F(ConversationTest, TextThatGoesOnWithoutASpecialTokenIsEncodedAgain) {
  conversation_.AddUser("c");
  (void)Encode("<turn>c<end><turn>");
  conversation_.AddAnswer("a", {kA}, tokenizer_);
  // "a" followed by "b" is the pair, as it would be without a history.
  EXPECT_THAT(Encode("<turn>c<end><turn>ab"), ElementsAre(kTurn, kC, kEnd, kTurn, kAb));
}

TEST_F(ConversationTest, AnswersCutAtAStopStringAreEncodedAgain) {
  conversation_.AddUser("c");
  (void)Encode("<turn>c<end><turn>");
  conversation_.AddAnswer("a", {kA, kB, kC}, tokenizer_);
  EXPECT_THAT(Encode("<turn>c<end><turn>a<end><turn>"),
              ElementsAre(kTurn, kC, kEnd, kTurn, kA, kEnd, kTurn));
}

TEST_F(ConversationTest, ResetKeepsTheSystemMessageOnly) {
  Conversation conversation("d");
  conversation.AddUser("c");
  conversation.Reset();
  const ConversationMessage system = {.role = "system", .content = "d"};
  EXPECT_THAT(conversation.messages(), ElementsAre(system));
  conversation.AddUser("a");
  conversation.DropLast();
  EXPECT_THAT(conversation.messages(), ElementsAre(system));
}

TEST_F(ConversationTest, LoadedMessagesKeepTheOwnSystemMessageUnlessTheyHaveOne) {
  const ConversationMessage own = {.role = "system", .content = "d"};
  const ConversationMessage other = {.role = "system", .content = "b"};
  const ConversationMessage user = {.role = "user", .content = "a"};
  Conversation conversation("d");
  conversation.AddUser("c");
  conversation.Replace({user});
  EXPECT_THAT(conversation.messages(), ElementsAre(own, user));
  conversation.Replace({other, user});
  EXPECT_THAT(conversation.messages(), ElementsAre(other, user));
  conversation.Replace({user});
  EXPECT_THAT(conversation.messages(), ElementsAre(own, user));
  // Nothing of the turns before serves for the new ones.
  (void)conversation.Encode("<turn>c<end>", tokenizer_);
  conversation.Replace({user});
  EXPECT_THAT(conversation.Encode("<turn>ab", tokenizer_).value(), ElementsAre(kTurn, kAb));
}

}  // namespace
}  // namespace baton
