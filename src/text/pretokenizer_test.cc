#include "text/pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "text/unicode.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Words(const std::string& family, const std::string& text) {
  const auto pre_tokenizer = PreTokenizer::Make(family);
  EXPECT_TRUE(pre_tokenizer.has_value()) << pre_tokenizer.error().message;
  const auto words = pre_tokenizer->Split(text);
  EXPECT_TRUE(words.has_value()) << words.error().message;
  return {words->begin(), words->end()};
}

// What each family is known for, worked out by hand from its pattern.
TEST(PreTokenizer, CutsAsTheFamilyDoes) {
  EXPECT_THAT(Words("gpt-2", "I'll pay 1234 now!\n\n  x"),
              ElementsAre("I", "'ll", " pay", " 1234", " now", "!", "\n\n ", " x"));
  EXPECT_THAT(Words("llama-bpe", "I'LL pay 1234 now!\n\n  x"),
              ElementsAre("I", "'LL", " pay", " ", "123", "4", " now", "!\n\n", " ", " x"));
  EXPECT_THAT(Words("qwen2", "a 123"), ElementsAre("a", " ", "1", "2", "3"));
  EXPECT_THAT(Words("smollm", "a 12\xC2\xBD"), ElementsAre("a", " ", "1", "2", "\xC2\xBD"));
  EXPECT_THAT(Words("falcon", "a, 12345"), ElementsAre("a", ",", " ", "123", "45"));
  EXPECT_THAT(Words("gpt-4o", "helloWorld it's THEM's"),
              ElementsAre("hello", "World", " it's", " THEM's"));
  EXPECT_THAT(Words("tekken", "helloWorld 12/\n"),
              ElementsAre("hello", "World", " ", "1", "2", "/\n"));
  EXPECT_THAT(Words("deepseek-v3", "x12345\xE4\xB8\x80y"),
              ElementsAre("x", "123", "45", "\xE4\xB8\x80", "y"));
  EXPECT_THAT(Words("deepseek-llm", "a\n\nb  "), ElementsAre("a", "\n", "\n", "b", "  "));
  EXPECT_THAT(Words("gpt-2", ""), ElementsAre());
}

// U+180E was a space in old versions of Unicode, U+0085 is one and is easily forgotten.
TEST(PreTokenizer, SpacesAreUnicodesWhiteSpace) {
  EXPECT_THAT(Words("gpt-2",
                    "a\xE1\xA0\x8E"
                    "b"),
              ElementsAre("a", "\xE1\xA0\x8E", "b"));
  EXPECT_THAT(Words("gpt-2", "!\xE1\xA0\x8E"), ElementsAre("!\xE1\xA0\x8E"));
  EXPECT_THAT(Words("gpt-2", "!\xC2\x85"), ElementsAre("!", "\xC2\x85"));
}

TEST(PreTokenizer, UnknownNamesAreRefusedWithTheKnownOnes) {
  for (const char* name : {"", "clever", "llama-bpe2", "GPT-2"}) {
    const auto result = PreTokenizer::Make(name);
    ASSERT_FALSE(result.has_value()) << name;
    EXPECT_EQ(result.error().code, ErrorCode::kUnavailable);
    EXPECT_THAT(result.error().message, HasSubstr("llama-bpe, "));
    EXPECT_THAT(result.error().message, HasSubstr("smollm"));
  }
}

TEST(PreTokenizer, NamesAreUnique) {
  std::set<std::string_view> names;
  for (const PreTokenizerFamily& family : PreTokenizerFamilies()) {
    for (const std::string_view name : family.names) {
      if (name.empty()) continue;
      EXPECT_TRUE(names.insert(name).second) << name;
    }
  }
  EXPECT_GT(names.size(), 20u);
}

// Whatever the text, no byte is lost, moved or doubled, and no character is cut.
TEST(PreTokenizer, WordsJoinToTheText) {
  std::mt19937 random(3);
  const std::vector<std::string> pieces = {"a",
                                           "B",
                                           " ",
                                           "  ",
                                           "\n",
                                           "\r",
                                           "\t",
                                           "1",
                                           "23",
                                           "'s",
                                           "'LL",
                                           "!",
                                           "_",
                                           "\xC3\xA9",
                                           "\xE4\xB8\x80",
                                           "\xF0\x9F\xA6\x89",
                                           "\xE3\x80\x80",
                                           "e\xCC\x81",
                                           "\xC2\x85",
                                           "\xE2\x80\xA8",
                                           "\xEF\xBC\x81",
                                           "/",
                                           "\xD7\xA9",
                                           "\xC2\xBD",
                                           std::string("\0", 1)};
  for (const PreTokenizerFamily& family : PreTokenizerFamilies()) {
    const auto pre_tokenizer = PreTokenizer::Make(family.names[0]);
    ASSERT_TRUE(pre_tokenizer.has_value()) << pre_tokenizer.error().message;
    for (int round = 0; round < 200; ++round) {
      std::string text;
      for (size_t i = random() % 40; i > 0; --i) text += pieces[random() % pieces.size()];
      const auto words = pre_tokenizer->Split(text);
      ASSERT_TRUE(words.has_value()) << words.error().message;
      std::string joined;
      for (const std::string_view word : *words) {
        EXPECT_FALSE(word.empty());
        EXPECT_TRUE(IsValidUtf8(word));
        joined += word;
      }
      ASSERT_EQ(joined, text) << family.names[0];
    }
  }
}

}  // namespace
}  // namespace baton
