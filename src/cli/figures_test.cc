#include "cli/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

GenerationResult Result(const GenerationFigures& figures, StopReason reason) {
  GenerationResult result;
  result.figures = figures;
  result.stop_reason = reason;
  return result;
}

// 100 prompt tokens, 20 of them cached, read in 2 seconds; 11 tokens, the last after 5 more.
constexpr GenerationFigures kWhole = {.prompt_tokens = 100,
                                      .cached_tokens = 20,
                                      .generated_tokens = 11,
                                      .first_token_seconds = 2,
                                      .prefill_seconds = 2,
                                      .decode_seconds = 5,
                                      .kv_bytes = 2048};

TEST(Figures, OfAWholeAnswer) {
  const GenerationResult result = Result(kWhole, StopReason::kLength);
  EXPECT_EQ(FiguresText(result, {}),
            "prompt   100 tokens, of which 20 cached\n"
            "prefill  40.0 tokens/s, first token after 2.00 s\n"
            "decode   11 tokens, 2.0 tokens/s\n"
            "memory   2.0 KiB of KV cache\n"
            "stop     length\n");
  EXPECT_EQ(FiguresNote(result, {}),
            "[prompt 100 tokens, 20 cached; first token 2.00 s, prefill 40.0 tokens/s;\n"
            " 11 tokens, 2.0 tokens/s; length]\n");
  const nlohmann::ordered_json json = FiguresJson(kWhole, {});
  EXPECT_EQ(json["prefill_tokens"], 80);
  EXPECT_EQ(json["prefill_tokens_per_second"], 40.0);
  EXPECT_EQ(json["decode_tokens_per_second"], 2.0);
}

TEST(Figures, ThePolicyIsNamedWhereSomebodyAsked) {
  GenerationFigures figures = kWhole;
  figures.prefill_policy = "dense";
  EXPECT_THAT(FiguresText(Result(figures, StopReason::kLength), {}),
              HasSubstr("\npolicy   dense\n"));
  EXPECT_THAT(FiguresNote(Result(figures, StopReason::kLength), {}), HasSubstr("tokens/s, dense;"));
  figures.prefill_policy = "rule=all";
  figures.prefill = PrefillReport{.layers = {{.kept = 1, .candidates = 4}}, .times = {}};
  EXPECT_THAT(FiguresText(Result(figures, StopReason::kLength), {}),
              HasSubstr("\nsparse   25.0% of the past's blocks read\npolicy   rule=all\n"));
  EXPECT_THAT(FiguresNote(Result(figures, StopReason::kLength), {}),
              HasSubstr("tokens/s, sparse (25.0% of blocks read);"));
  EXPECT_EQ(FiguresJson(figures, {})["sparse_prefill"]["density"], 0.25);
}

TEST(Figures, OneTokenHasNoRate) {
  GenerationFigures figures = kWhole;
  figures.generated_tokens = 1;
  figures.decode_seconds = 0;
  EXPECT_THAT(FiguresText(Result(figures, StopReason::kLength), {}),
              HasSubstr("\ndecode   1 token\n"));
  EXPECT_TRUE(FiguresJson(figures, {})["decode_tokens_per_second"].is_null());
}

TEST(Figures, StoppedWhileThePromptWasRead) {
  const GenerationFigures figures = {.prompt_tokens = 100, .cached_tokens = 20};
  const PromptReading reading = {.tokens = 30, .seconds = 3};
  const GenerationResult result = Result(figures, StopReason::kCancelled);
  EXPECT_THAT(FiguresText(result, reading),
              HasSubstr("\nprefill  stopped after 30 of 80 tokens, 10.0 tokens/s\n"
                        "decode   0 tokens\n"));
  EXPECT_THAT(FiguresNote(result, reading), Not(HasSubstr("first token")));
  const nlohmann::ordered_json json = FiguresJson(figures, reading);
  EXPECT_EQ(json["prefill_tokens"], 30);
  EXPECT_EQ(json["prefill_seconds"], 3.0);
  for (const char* key : {"first_token_seconds", "decode_seconds", "decode_tokens_per_second"}) {
    EXPECT_TRUE(json[key].is_null()) << key;
  }
  EXPECT_THAT(FiguresText(result, {}), HasSubstr("\nprefill  nothing was read\n"));
}

}  // namespace
}  // namespace baton
