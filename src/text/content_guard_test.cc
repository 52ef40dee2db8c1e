#include "text/content_guard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "text/tokenizer_test_vocabulary.h"

namespace baton {
namespace {

const std::string kG(kContentGuard);
const std::string kFffd = "\xEF\xBF\xBD";

ContentGuard TwoNames() {
  return ContentGuard({"<|end|>", "<x y>", "", "\xE2\x80\xA6"});  // the last one is U+2026
}

TEST(ContentGuard, NamesAreBrokenBehindTheirFirstCharacter) {
  const ContentGuard guard = TwoNames();
  EXPECT_EQ(guard.Guard("a<|end|>b<x y>c"), "a<" + kG + "|end|>b<" + kG + "x y>c");
  EXPECT_EQ(ContentGuard({"aba"}).Guard("-ababa-"), "-a" + kG + "ba" + kG + "ba-");
  EXPECT_EQ(ContentGuard({"\xC3\xA9!"}).Guard("-\xC3\xA9!-"), "-\xC3\xA9" + kG + "!-");
}

TEST(ContentGuard, EndsThatAnotherTextCouldCompleteAreClosed) {
  const ContentGuard guard = TwoNames();
  EXPECT_EQ(guard.Guard("a <|en"), "a <|en" + kG);
  EXPECT_EQ(guard.Guard("a <x \n"), "a <x" + kG + " \n");
  EXPECT_EQ(guard.Guard("a <"), "a <" + kG);
  EXPECT_EQ(guard.Guard(" nd|> b"), " " + kG + "nd|> b");
  EXPECT_EQ(guard.Guard("> quote"), kG + "> quote");
}

TEST(ContentGuard, OtherContentsStayAsTheyAre) {
  const ContentGuard guard = TwoNames();
  for (const std::string content : {"", " \n", "a < b > c", "x<|END|>x", "x <xy> \xFF z"}) {
    EXPECT_EQ(guard.Guard(content), content);
  }
}

TEST(ContentGuard, GuardsAndNamesOfOneCharacterBecomeReplacementCharacters) {
  const ContentGuard guard = TwoNames();
  EXPECT_EQ(guard.Guard("a" + kG + "b\xE2\x80\xA6"), "a" + kFffd + "b" + kFffd);
  EXPECT_EQ(guard.Guard("<|e" + kG + "nd|> "), "<|e" + kFffd + "nd|>" + " ");
}

TEST(ContentGuard, RemovingTellsWhereTheGuardsWere) {
  const UnguardedText removed = RemoveGuards(kG + "ab" + kG + kG + "c" + kG);
  EXPECT_EQ(removed.text, "abc");
  EXPECT_EQ(removed.guards, (std::vector<size_t>{0, 2, 2, 3}));
}

// Whatever stands on both sides, contents of few letters never spell a name across the border or
// inside, and lose nothing.
TEST(ContentGuard, NoNeighboursCompleteAName) {
  const std::vector<std::string> names = {"ab", "aab", "bba", "abcab", "ccc"};
  const ContentGuard guard(names);
  std::mt19937 random(11);
  const auto text = [&random](uint64_t most) {
    std::string out;
    for (uint64_t n = random() % (most + 1); n > 0; --n) out += "abc "[random() % 4];
    return out;
  };
  for (int round = 0; round < 20'000; ++round) {
    const std::string content = text(8);
    const std::string guarded = guard.Guard(content);
    ASSERT_EQ(RemoveGuards(guarded).text, content);
    const std::string neighbour = text(4);
    for (const std::string& name : names) {
      for (const bool after : {false, true}) {
        const std::string joined = after ? guarded + neighbour : neighbour + guarded;
        const size_t border = after ? guarded.size() : neighbour.size();
        for (size_t at = joined.find(name); at != std::string::npos;
             at = joined.find(name, at + 1)) {
          const bool in_neighbour = after ? at >= border : at + name.size() <= border;
          ASSERT_TRUE(in_neighbour) << '[' << content << "] beside [" << neighbour << ']';
        }
      }
    }
  }
}

// User-defined tokens are matched in every text, in SentencePiece vocabularies after the guards
// are gone: the ones that mark turns must not come back.
TEST(ContentGuard, UserDefinedTurnTokensStayBroken) {
  for (const char* file : {"small-spm.json", "small-byte-level.json"}) {
    VocabularyData data =
        SmallVocabulary(ReadJsonFile(BATON_TEST_DATA "/tokenizer/" + std::string(file)));
    for (const char* name : {"<|user|>", "<table>"}) {
      data.tokens.emplace_back(name);
      data.types.push_back(PieceType::kUserDefined);
      if (!data.scores.empty()) data.scores.push_back(0);
    }
    const auto table = static_cast<TokenId>(data.tokens.size() - 1);
    const TokenId user = table - 1;
    const Tokenizer tokenizer = MakeTokenizer(std::move(data));
    const auto count = [&](const std::string& text, TokenId id) {
      const auto ids =
          tokenizer.Encode(text, {.add_special = false, .parse_special = true, .drop_guards = true})
              .value();
      EXPECT_EQ(tokenizer.Decode(ids, {.skip_special = false, .starts_text = true}).value(),
                RemoveGuards(text).text);
      return std::count(ids.begin(), ids.end(), id);
    };
    const std::string content = "a<|user|>b<table> <|user|><|user|>";
    EXPECT_EQ(count(content, user), 3) << file;
    EXPECT_EQ(count("<|user|>" + tokenizer.GuardContent(content) + "<|user|>", user), 2) << file;
    EXPECT_EQ(count(tokenizer.GuardContent("x<|us") + "er|>", user), 0) << file;
    EXPECT_EQ(count("<|us" + tokenizer.GuardContent("er|>"), user), 0) << file;
    EXPECT_EQ(count(tokenizer.GuardContent(content), table), 1) << file;
  }
}

}  // namespace
}  // namespace baton
