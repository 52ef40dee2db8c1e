// P-05 with real models: an answer from a cache that was used before equals the cold one, in ids
// and bits of log-probabilities, and the reused tokens are counted truly.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/test_paths.h"
#include "engine/generator.h"
#include "kernels/isa.h"

namespace baton {
namespace {

class Silent : public GenerationObserver {
 public:
  void OnPrefill(int64_t, int64_t) override {}
  void OnToken(const SampledToken&) override {}
  void OnText(std::string_view) override {}
};

// The log-probabilities hang on every logit of the row.
struct Answer {
  std::vector<TokenId> ids;
  std::vector<double> logprobs;  // of the choices and of ten alternatives each
  int64_t cached_tokens = 0;
};

class ReuseTest : public testing::Test {
 protected:
  void Open(const std::string& path) {
    Result<LoadedModel> model = LoadModel(
        {.path = path, .isa = BestIsa(), .num_threads = 2, .context_tokens = 1600}, nullptr);
    ASSERT_TRUE(model.has_value()) << model.error().message;
    model_.emplace(*std::move(model));
    Result<Generator> generator = Generator::Make(*model_);
    ASSERT_TRUE(generator.has_value()) << generator.error().message;
    generator_.emplace(*std::move(generator));
  }

  std::vector<TokenId> RandomIds(int64_t count, uint64_t seed) const {
    RandomStream random({.seed = seed, .stream = 3});
    std::vector<TokenId> ids(static_cast<size_t>(count));
    for (TokenId& id : ids) id = static_cast<TokenId>(1000 + random.NextBelow(40000));
    return ids;
  }

  static constexpr int64_t kAnswerTokens = 24;

  Answer Run(Generator& generator, const std::vector<TokenId>& prompt) {
    return RunTo(kAnswerTokens, generator, prompt);
  }
  Answer RunTo(int64_t max_tokens, Generator& generator, const std::vector<TokenId>& prompt) {
    GenerationRequest request;
    request.prompt = prompt;
    request.sampling.temperature = 0;
    request.sampling.num_top_logprobs = 10;
    request.max_tokens = max_tokens;
    request.ignore_end_tokens = true;
    Silent silent;
    const std::atomic<bool> cancel = false;
    const Result<GenerationResult> result = generator.Generate(request, silent, cancel);
    EXPECT_TRUE(result.has_value()) << result.error().message;
    Answer answer;
    if (!result) return answer;
    answer.cached_tokens = result->figures.cached_tokens;
    for (const SampledToken& token : result->tokens) {
      answer.ids.push_back(token.id);
      answer.logprobs.push_back(token.raw_logprob);
      for (const TokenLogprob& other : token.raw_top) answer.logprobs.push_back(other.logprob);
    }
    EXPECT_EQ(std::ssize(answer.ids), max_tokens);
    EXPECT_EQ(std::ssize(answer.logprobs), max_tokens * 11);
    return answer;
  }

  // Runs warm, and cold in a generator that has seen nothing.
  void ExpectCold(const std::vector<TokenId>& prompt, int64_t cached_tokens) {
    Result<Generator> fresh = Generator::Make(*model_);
    ASSERT_TRUE(fresh.has_value());
    const Answer cold = Run(*fresh, prompt);
    EXPECT_EQ(cold.cached_tokens, 0);
    const Answer warm = Run(*generator_, prompt);
    EXPECT_EQ(warm.cached_tokens, cached_tokens);
    EXPECT_EQ(warm.ids, cold.ids);
    EXPECT_EQ(warm.logprobs, cold.logprobs);
  }

  // The whole case: the same prompt, changed at its end, changed within, cut.
  void RunCase(int64_t length, int64_t diverging, int64_t cut) {
    const std::vector<TokenId> prompt = RandomIds(length, 1);
    const Answer cold = Run(*generator_, prompt);
    EXPECT_EQ(cold.cached_tokens, 0);
    for (int i = 0; i < 3; ++i) {
      const Answer warm = Run(*generator_, prompt);
      EXPECT_EQ(warm.cached_tokens, length - 1);
      EXPECT_EQ(warm.ids, cold.ids);
      EXPECT_EQ(warm.logprobs, cold.logprobs);
    }
    const auto changed_from = [&](int64_t position, uint64_t seed) {
      std::vector<TokenId> changed = prompt;
      const std::vector<TokenId> other = RandomIds(length - position, seed);
      std::copy(other.begin(), other.end(), changed.begin() + position);
      EXPECT_NE(changed[static_cast<size_t>(position)], prompt[static_cast<size_t>(position)]);
      return changed;
    };
    ExpectCold(changed_from(length - 20, 2), length - 20);
    ExpectCold(changed_from(diverging, 3), diverging);
    ExpectCold({prompt.begin(), prompt.begin() + cut}, cut - 1);
  }

  // After 30 other prompts, shorter and longer, have left their keys and values in the blocks.
  void RunAfterOthers(int64_t length) {
    const std::vector<TokenId> prompt = RandomIds(length, 1);
    const Answer cold = Run(*generator_, prompt);
    for (int64_t other = 0; other < 30; ++other) {
      const std::vector<TokenId> ids =
          RandomIds(length / 2 + other * length / 30, 100 + static_cast<uint64_t>(other));
      EXPECT_EQ(RunTo(2, *generator_, ids).cached_tokens, 0);
    }
    const Answer again = Run(*generator_, prompt);
    EXPECT_EQ(again.cached_tokens, 0);
    EXPECT_EQ(again.ids, cold.ids);
    EXPECT_EQ(again.logprobs, cold.logprobs);
  }

  std::optional<LoadedModel> model_;
  std::optional<Generator> generator_;
};

// About three windows of 512.
TEST_F(ReuseTest, Gemma) {
  BATON_CACHED_FILE_OR_SKIP(path, "gemma-3-270m-q4_k_m.gguf");
  Open(path);
  if (HasFatalFailure()) return;
  RunCase(1500, 700, 600);
}

TEST_F(ReuseTest, SmolLM) {
  BATON_CACHED_FILE_OR_SKIP(path, "smollm2-135m-instruct-q4_1.gguf");
  Open(path);
  if (HasFatalFailure()) return;
  RunCase(500, 300, 200);
}

TEST_F(ReuseTest, SmolLMAfterThirtyOtherPrompts) {
  BATON_CACHED_FILE_OR_SKIP(path, "smollm2-135m-instruct-q4_1.gguf");
  Open(path);
  if (HasFatalFailure()) return;
  RunAfterOthers(150);
}

}  // namespace
}  // namespace baton
