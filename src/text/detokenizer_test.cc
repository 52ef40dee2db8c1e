#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "text/tokenizer_test_vocabulary.h"
#include "text/unicode.h"

namespace baton {
namespace {

nlohmann::json ReadTokenizerData(const std::string& name) {
  return ReadJsonFile(BATON_TEST_DATA "/tokenizer/" + name);
}

// Random ids, so random bytes: the strictest text there is.
void CheckRandomStreams(const Tokenizer& tokenizer, const DecodeOptions& options, uint32_t seed) {
  std::mt19937 random(seed);
  size_t num_ill_formed = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<TokenId> ids(random() % 12);
    // Low ids are single bytes in both vocabularies, so that characters are often cut.
    for (TokenId& id : ids) {
      id = static_cast<TokenId>(random() % (random() % 4 == 0 ? tokenizer.size() : 264));
    }
    const std::string whole = tokenizer.Decode(ids, options).value();
    Detokenizer detokenizer(tokenizer, options);
    std::string joined;
    std::string joined_repaired;
    for (const TokenId id : ids) {
      const std::string piece = detokenizer.Push(id);
      joined += piece;
      joined_repaired += ReplaceInvalidUtf8(piece);
      ASSERT_TRUE(!IsValidUtf8(whole) || IsValidUtf8(piece));
      ASSERT_TRUE(whole.starts_with(joined));
    }
    const std::string last = detokenizer.Finish();
    ASSERT_LE(last.size(), 3u);
    ASSERT_EQ(joined + last, whole);
    ASSERT_EQ(joined_repaired + ReplaceInvalidUtf8(last), ReplaceInvalidUtf8(whole));
    num_ill_formed += IsValidUtf8(whole) ? 0 : 1;
    ASSERT_EQ(detokenizer.Finish(), "");
  }
  EXPECT_GT(num_ill_formed, 100u);
}

TEST(Detokenizer, PiecesJoinToTheWholeForAnyIds) {
  for (const char* name : {"small-byte-level.json", "small-spm.json"}) {
    const Tokenizer tokenizer = MakeTokenizer(SmallVocabulary(ReadTokenizerData(name)));
    for (const bool skip : {false, true}) {
      for (const bool starts : {false, true}) {
        CheckRandomStreams(tokenizer, {.skip_special = skip, .starts_text = starts}, 41);
      }
    }
  }
}

TEST(Detokenizer, HoldsNoMoreThanACharactersStart) {
  const Tokenizer tokenizer =
      MakeTokenizer(SmallVocabulary(ReadTokenizerData("small-byte-level.json")));
  const std::vector<TokenId> owl =
      tokenizer.Encode("\xF0\x9F\xA6\x89", {.add_special = false, .parse_special = false}).value();
  ASSERT_EQ(owl.size(), 4u);  // the training text has no owls
  Detokenizer detokenizer(tokenizer, {.skip_special = false, .starts_text = true});
  EXPECT_EQ(detokenizer.Push(owl[0]), "");
  EXPECT_EQ(detokenizer.Push(owl[1]), "");
  EXPECT_EQ(detokenizer.Push(owl[2]), "");
  EXPECT_EQ(detokenizer.Push(owl[3]), "\xF0\x9F\xA6\x89");
  // A start that never ends comes out with what shows that it will not.
  EXPECT_EQ(detokenizer.Push(owl[0]), "");
  EXPECT_EQ(detokenizer.Push(owl[0]), "\xF0");
  EXPECT_EQ(detokenizer.Finish(), "\xF0");
}

}  // namespace
}  // namespace baton
