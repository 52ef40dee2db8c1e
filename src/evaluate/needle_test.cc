// Prompts with a needle: their form, and what is counted. Real models: tests/cli.
#include "evaluate/needle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/generator.h"
#include "engine/test_tiny_file.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

class NeedleTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<LoadedModel> model = LoadModel(
        {.path = file_.path(), .isa = BestIsa(), .num_threads = 2, .context_tokens = 1024},
        nullptr);
    ASSERT_TRUE(model.has_value()) << model.error().message;
    model_.emplace(*std::move(model));
    text_ = FillerText(4000, 3);
    Result<std::vector<TokenId>> tokens =
        model_->tokenizer->Encode(text_, {.add_special = false, .parse_special = false});
    ASSERT_TRUE(tokens.has_value());
    tokens_ = *std::move(tokens);
  }

  const TinyFile file_ = TinyFile(TinyModel{});
  std::optional<LoadedModel> model_;
  std::string text_;
  std::vector<TokenId> tokens_;
};

TEST_F(NeedleTest, APromptIsAsLongAsAskedForAndEndsInTheAnswer) {
  std::vector<int64_t> at;
  for (const int64_t depth : {0, 40, 100}) {
    const Result<NeedlePrompt> prompt = MakeNeedlePrompt(
        *model_->tokenizer, tokens_, {.length = 500, .depth = depth, .trial = 0}, 1);
    ASSERT_TRUE(prompt.has_value()) << prompt.error().message;
    EXPECT_EQ(prompt->tokens.size(), 500u);
    ASSERT_GT(prompt->num_answer_tokens, 0);
    at.push_back(prompt->needle_position);
    // The answer stands in the needle, too.
    const auto answer = prompt->tokens.end() - prompt->num_answer_tokens;
    const auto first = std::search(prompt->tokens.begin(), answer, answer, prompt->tokens.end());
    EXPECT_NE(first, answer);
    EXPECT_GE(first - prompt->tokens.begin(), prompt->needle_position);
  }
  EXPECT_LE(at[0], 1);
  EXPECT_NEAR(static_cast<double>(at[1]), 200, 130);
  EXPECT_GT(at[2], at[1]);
  const auto other = [&](const NeedlePlace& place, uint64_t seed) {
    return MakeNeedlePrompt(*model_->tokenizer, tokens_, place, seed)->tokens;
  };
  EXPECT_EQ(other({500, 40, 0}, 1), other({500, 40, 0}, 1));
  EXPECT_NE(other({500, 40, 0}, 1), other({500, 40, 1}, 1));
  EXPECT_NE(other({500, 40, 0}, 1), other({500, 40, 0}, 2));
}

TEST_F(NeedleTest, TheProbabilityIsThatOfTheEnginesLogits) {
  SparsePolicy all;
  all.rule = SelectionRule::kAll;
  const std::atomic<bool> cancel = false;
  const Result<NeedleResult> result = MeasureNeedles(
      *model_,
      {.text = text_, .lengths = {300}, .depths = {50}, .policies = {all}, .num_trials = 1},
      nullptr, cancel);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  const NeedlePrompt prompt =
      *MakeNeedlePrompt(*model_->tokenizer, tokens_, {.length = 300, .depth = 50, .trial = 0}, 1);
  Result<Generator> generator = Generator::Make(*model_);
  ASSERT_TRUE(generator.has_value());
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < prompt.num_answer_tokens; ++i) {
    positions.push_back(299 - prompt.num_answer_tokens + i);
  }
  double wanted = 0;
  bool is_found = true;
  ASSERT_TRUE(generator
                  ->Logits(
                      prompt.tokens, positions,
                      [&](int64_t position, std::span<const float> logits) {
                        const auto right =
                            static_cast<size_t>(prompt.tokens[static_cast<size_t>(position) + 1]);
                        double sum = 0;
                        for (const float x : logits) sum += std::exp(static_cast<double>(x));
                        wanted += static_cast<double>(logits[right]) - std::log(sum);
                        is_found = is_found &&
                                   *std::max_element(logits.begin(), logits.end()) == logits[right];
                      },
                      cancel)
                  .has_value());
  const NeedleCell& cell = result->dense[0][0];
  EXPECT_EQ(cell.trials, 1);
  EXPECT_EQ(cell.found, is_found ? 1 : 0);
  EXPECT_NEAR(cell.log_probability, wanted, 1e-9);
  EXPECT_EQ(result->policies[0][0][0].log_probability, cell.log_probability);
}

TEST_F(NeedleTest, RefusesWhatCannotBe) {
  const std::atomic<bool> cancel = false;
  const auto message = [&](const NeedleOptions& options) {
    const Result<NeedleResult> result = MeasureNeedles(*model_, options, nullptr, cancel);
    return result.has_value() ? "none" : result.error().message;
  };
  EXPECT_THAT(message({.text = text_, .lengths = {99}, .depths = {50}, .policies = {}}),
              HasSubstr("at least 100 tokens, got 99"));
  EXPECT_THAT(message({.text = "word", .lengths = {300}, .depths = {50}, .policies = {}}),
              HasSubstr("too few for prompts of 300"));
  EXPECT_THAT(message({.text = text_, .lengths = {300}, .depths = {101}, .policies = {}}),
              HasSubstr("0..100 percent, got 101"));
  EXPECT_THAT(message({.text = text_, .lengths = {}, .depths = {50}, .policies = {}}),
              HasSubstr("at least one length"));
}

}  // namespace
}  // namespace baton
