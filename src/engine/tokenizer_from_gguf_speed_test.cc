// Time grows with the length of a text, whatever the text (cases T-05 and T-06).
//
// Times are those of the thread's own work, so that other load on the machine counts little.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/test_paths.h"
#include "engine/tokenizer_from_gguf.h"
#include "text/detokenizer.h"

namespace baton {
namespace {

constexpr EncodeOptions kPlain = {.add_special = false, .parse_special = false};
constexpr size_t kMegabyte = 1000000;

// Sanitizers slow parts of the program by different factors, so times say nothing under them.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

double ThreadSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::string Repeat(const std::string& piece, size_t count) {
  std::string text;
  text.reserve(piece.size() * count);
  for (size_t i = 0; i < count; ++i) text += piece;
  return text;
}

// Units: seconds.
double EncodeSeconds(const Tokenizer& tokenizer, const std::string& text) {
  const double start = ThreadSeconds();
  const auto ids = tokenizer.Encode(text, kPlain);
  const double seconds = ThreadSeconds() - start;
  EXPECT_TRUE(ids.has_value());
  return seconds;
}

void CheckOrdinaryText(const Tokenizer& tokenizer) {
  std::ifstream file(BATON_TEST_DATA "/golden/text/kjv-slice.txt", std::ios::binary);
  std::ostringstream slice;
  slice << file.rdbuf();
  ASSERT_GT(slice.str().size(), 80000u);
  const std::string text =
      Repeat(slice.str(), kMegabyte / slice.str().size() + 1).substr(0, kMegabyte);
  const double seconds = EncodeSeconds(tokenizer, text);
  std::printf("1 MB of ordinary text: %.3f s\n", seconds);
  EXPECT_LT(seconds, 2);

  const auto ids = tokenizer.Encode(text, kPlain).value();
  const double start = ThreadSeconds();
  Detokenizer detokenizer(tokenizer, {.skip_special = false, .starts_text = true});
  std::string joined;
  for (const TokenId id : ids) joined += detokenizer.Push(id);
  std::printf("%zu ids back to text: %.3f s\n", ids.size(), ThreadSeconds() - start);
  EXPECT_EQ(joined + detokenizer.Finish(), text);
}

void CheckOneCharacter(const Tokenizer& tokenizer) {
  for (const std::string piece :
       {"a", "_", " ", "\n", "1", "\xF0\x9F\xA6\x89", "\xE4\xB8\x80", "\xFF", "<"}) {
    const double seconds = EncodeSeconds(tokenizer, Repeat(piece, kMegabyte / piece.size()));
    std::printf("1 MB of \"%s\": %.3f s\n", piece == "\xFF" ? "\\xff" : piece.c_str(), seconds);
    EXPECT_LT(seconds, 2) << piece;
  }
}

// Blanks that are not at the end of a text made one of the expressions of DeepSeek LLM scan ahead
// from each of them.
void CheckRunsBeforeOtherText(const Tokenizer& tokenizer) {
  for (const std::string tail : {"x", "\xE4\xB8\x80", "\n"}) {
    for (const std::string piece : {" ", "\t", "\xE3\x80\x80", " \n", "aB", "A"}) {
      const double seconds = EncodeSeconds(tokenizer, Repeat(piece, 100000) + tail);
      EXPECT_LT(seconds, 1) << "100,000 times \"" << piece << "\", then " << tail;
    }
  }
}

// Both lengths are measured again until the ratio is right or there were too many tries: noise goes
// away that way, squared time does not.
void CheckDoubling(const Tokenizer& tokenizer, const std::string& piece, size_t length) {
  double once = 1e30;
  double twice = 1e30;
  for (int run = 0; run < 40 && (run < 3 || twice >= 2.6 * once); ++run) {
    once = std::min(once, EncodeSeconds(tokenizer, Repeat(piece, length)));
    twice = std::min(twice, EncodeSeconds(tokenizer, Repeat(piece, 2 * length)));
  }
  EXPECT_LT(twice, 2.6 * once) << 2 * length << " times \"" << piece << "\"";
}

class Speed : public testing::TestWithParam<const char*> {};

TEST_P(Speed, TimeIsLinearInTheText) {
  if (kSanitized) GTEST_SKIP() << "times are not measured under sanitizers";
  BATON_CACHED_FILE_OR_SKIP(path, GetParam());
  const auto file = GgufFile::Open(path);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  const auto tokenizer = TokenizerFromGguf(*file);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  CheckOrdinaryText(*tokenizer);
  CheckOneCharacter(*tokenizer);
  CheckRunsBeforeOtherText(*tokenizer);
  for (const std::string piece : {"a", "_", " ", "\n", "\xF0\x9F\xA6\x89"}) {
    CheckDoubling(*tokenizer, piece, 10000);
    CheckDoubling(*tokenizer, piece, 20000);
    EXPECT_LT(EncodeSeconds(*tokenizer, Repeat(piece, 200000)), 1) << piece;
  }
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, Speed,
                         testing::Values("smollm2-135m-instruct-q4_1.gguf",
                                         "gemma-3-270m-q4_k_m.gguf",
                                         "llama-cpp-models/ggml-vocab-llama-bpe.gguf",
                                         "llama-cpp-models/ggml-vocab-llama-spm.gguf",
                                         "llama-cpp-models/ggml-vocab-deepseek-llm.gguf"));

}  // namespace
}  // namespace baton
