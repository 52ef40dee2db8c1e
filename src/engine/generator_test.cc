// One sequence from prompt to stop, on a tiny model: limits, stops, cancel, what is cached, and
// that a decode step allocates nothing. Real models: generator_model_test.cc.
#include "engine/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/test_allocation_count.h"
#include "engine/test_tiny_file.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Keeps all that a generation tells.
class Listener : public GenerationObserver {
 public:
  void OnPrefill(int64_t done_tokens, int64_t total_tokens) override {
    prefills.emplace_back(done_tokens, total_tokens);
  }
  void OnToken(const SampledToken& token) override {
    ids.push_back(token.id);
    if (on_token) on_token();
  }
  void OnText(std::string_view piece) override { text += piece; }

  std::vector<std::pair<int64_t, int64_t>> prefills;
  std::vector<TokenId> ids;
  std::string text;
  std::function<void()> on_token;
};

std::vector<TokenId> Ids(const GenerationResult& result) {
  std::vector<TokenId> ids;
  for (const SampledToken& token : result.tokens) ids.push_back(token.id);
  return ids;
}

class GeneratorTest : public testing::Test {
 protected:
  static constexpr int64_t kContext = 64;

  void SetUp() override { Open(kContext, 16); }

  void Open(int64_t context_tokens, int64_t chunk_tokens) {
    generator_.reset();
    Result<LoadedModel> model = LoadModel({.path = file_.path(),
                                           .num_threads = 1,
                                           .context_tokens = context_tokens,
                                           .chunk_tokens = chunk_tokens},
                                          nullptr);
    ASSERT_TRUE(model.has_value()) << model.error().message;
    model_.emplace(*std::move(model));
    Result<Generator> generator = Generator::Make(*model_);
    ASSERT_TRUE(generator.has_value()) << generator.error().message;
    generator_.emplace(*std::move(generator));
  }

  static std::vector<TokenId> Prompt(int64_t count) {
    std::vector<TokenId> prompt;
    for (int64_t i = 0; i < count; ++i) {
      prompt.push_back(static_cast<TokenId>(kTinyFirstWord + i * 7 % 50));
    }
    return prompt;
  }
  // Greedy, through end tokens, with log-probabilities.
  static GenerationRequest Request(int64_t prompt_tokens, std::optional<int64_t> max_tokens) {
    GenerationRequest request;
    request.prompt = Prompt(prompt_tokens);
    request.sampling.temperature = 0;
    request.sampling.num_top_logprobs = 3;
    request.max_tokens = max_tokens;
    request.ignore_end_tokens = true;
    return request;
  }
  Result<GenerationResult> Run(const GenerationRequest& request) {
    listener_ = Listener();
    const std::atomic<bool> cancel = false;
    return generator_->Generate(request, listener_, cancel);
  }
  GenerationResult MustRun(const GenerationRequest& request) {
    Result<GenerationResult> result = Run(request);
    EXPECT_TRUE(result.has_value()) << result.error().message;
    return result ? *std::move(result) : GenerationResult();
  }
  // The answer from an empty cache.
  GenerationResult MustRunCold(const GenerationRequest& request) {
    generator_->Reset();
    return MustRun(request);
  }

  const TinyFile file_{{.layers = 2, .sliding_window = 20}};
  std::optional<LoadedModel> model_;
  std::optional<Generator> generator_;
  Listener listener_;
};

TEST_F(GeneratorTest, MaxTokensZeroAndOne) {
  GenerationResult result = MustRun(Request(10, 0));
  EXPECT_EQ(result.stop_reason, StopReason::kLength);
  EXPECT_TRUE(result.tokens.empty());
  EXPECT_EQ(result.text, "");
  result = MustRun(Request(10, 1));
  EXPECT_EQ(result.stop_reason, StopReason::kLength);
  EXPECT_EQ(result.tokens.size(), 1u);
  EXPECT_EQ(result.figures.prompt_tokens, 10);
  EXPECT_EQ(result.figures.generated_tokens, 1);
}

// P-06: context 64.
TEST_F(GeneratorTest, ContextFull) {
  for (const int64_t prompt : {62, 63}) {
    for (const std::optional<int64_t> max_tokens : {std::optional<int64_t>(1000), {}}) {
      const GenerationResult result = MustRun(Request(prompt, max_tokens));
      EXPECT_EQ(result.stop_reason, StopReason::kContextFull) << prompt;
      EXPECT_EQ(std::ssize(result.tokens), kContext - prompt);
    }
    EXPECT_EQ(MustRun(Request(prompt, 1)).stop_reason, StopReason::kLength);
  }
  for (const int64_t prompt : {64, 65, 500}) {
    const Result<GenerationResult> result = Run(Request(prompt, 1));
    ASSERT_FALSE(result.has_value()) << prompt;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(result.error().message, AllOf(HasSubstr(std::to_string(prompt)), HasSubstr("64")));
    EXPECT_TRUE(listener_.prefills.empty());
  }
}

TEST_F(GeneratorTest, PromptsThatCannotBe) {
  GenerationRequest request = Request(3, 1);
  request.prompt.clear();
  EXPECT_EQ(Run(request).error().code, ErrorCode::kInvalid);
  for (const TokenId bad : {-1, 320, 2147483647}) {
    request.prompt = {5, bad};
    const Result<GenerationResult> result = Run(request);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(result.error().message, AllOf(HasSubstr(std::to_string(bad)), HasSubstr("319")));
  }
}

TEST_F(GeneratorTest, TheObserverHearsWhatTheResultHolds) {
  const GenerationResult result = MustRun(Request(40, 12));
  EXPECT_EQ(listener_.ids, Ids(result));
  EXPECT_EQ(listener_.text, result.text);
  ASSERT_FALSE(listener_.prefills.empty());
  EXPECT_TRUE(std::ranges::is_sorted(listener_.prefills));
  EXPECT_EQ(listener_.prefills.back(), (std::pair<int64_t, int64_t>(40, 40)));
  const DecodeOptions options{.skip_special = true, .starts_text = false};
  EXPECT_EQ(result.text, *model_->tokenizer->Decode(Ids(result), options));
}

TEST_F(GeneratorTest, EndTokensStopUnlessIgnored) {
  // A bias of 100 makes the end token the greedy choice.
  GenerationRequest request = Request(10, 5);
  request.sampling.logit_bias = {{.token = kTinyEnd, .bias = 100.0}};
  GenerationResult result = MustRun(request);
  EXPECT_EQ(result.stop_reason, StopReason::kLength);
  EXPECT_EQ(Ids(result), std::vector<TokenId>(5, kTinyEnd));
  request.ignore_end_tokens = false;
  result = MustRun(request);
  EXPECT_EQ(result.stop_reason, StopReason::kEndToken);
  EXPECT_TRUE(result.tokens.empty());
  EXPECT_EQ(result.stopped_by, "</s>");
}

TEST_F(GeneratorTest, StopStringsEndTheTextBeforeThem) {
  // The bias makes every token "w5".
  GenerationRequest request = Request(10, 20);
  request.sampling.logit_bias = {{.token = kTinyFirstWord + 5, .bias = 100.0}};
  EXPECT_EQ(MustRun(request).text.substr(0, 8), "w5w5w5w5");
  request.stop_strings = {"nothing", "5w5w5"};
  const GenerationResult result = MustRun(request);
  EXPECT_EQ(result.stop_reason, StopReason::kStopString);
  EXPECT_EQ(result.stopped_by, "5w5w5");
  EXPECT_EQ(result.text, "w");
  EXPECT_EQ(listener_.text, "w");
  EXPECT_EQ(result.tokens.size(), 3u);
}

TEST_F(GeneratorTest, CancelKeepsWhatWasGeneratedAndTheCache) {
  const GenerationRequest request = Request(30, 20);
  const std::vector<TokenId> whole = Ids(MustRunCold(request));
  generator_->Reset();
  std::atomic<bool> cancel = false;
  listener_ = Listener();
  listener_.on_token = [&] { cancel = listener_.ids.size() == 4; };
  Result<GenerationResult> result = generator_->Generate(request, listener_, cancel);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->stop_reason, StopReason::kCancelled);
  EXPECT_EQ(Ids(*result), std::vector<TokenId>(whole.begin(), whole.begin() + 4));
  // What is in the cache is good for the next request.
  const GenerationResult next = MustRun(request);
  EXPECT_EQ(next.figures.cached_tokens, 29);
  EXPECT_EQ(Ids(next), whole);

  generator_->Reset();
  cancel = true;
  listener_ = Listener();
  result = generator_->Generate(request, listener_, cancel);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->stop_reason, StopReason::kCancelled);
  EXPECT_TRUE(result->tokens.empty());
  EXPECT_EQ(Ids(MustRun(request)), whole);
}

void ExpectSameAnswer(const GenerationResult& a, const GenerationResult& b) {
  ASSERT_EQ(Ids(a), Ids(b));
  for (size_t i = 0; i < a.tokens.size(); ++i) {
    EXPECT_EQ(a.tokens[i].raw_logprob, b.tokens[i].raw_logprob) << i;  // equal bits
    ASSERT_EQ(a.tokens[i].raw_top.size(), b.tokens[i].raw_top.size());
    for (size_t j = 0; j < a.tokens[i].raw_top.size(); ++j) {
      EXPECT_EQ(a.tokens[i].raw_top[j].logprob, b.tokens[i].raw_top[j].logprob);
    }
  }
}

TEST_F(GeneratorTest, ATurnOfAChatComputesOnlyWhatIsNew) {
  Open(512, 64);
  const GenerationResult first = MustRun(Request(100, 10));
  EXPECT_EQ(first.figures.cached_tokens, 0);
  EXPECT_EQ(generator_->cached_tokens(), 109);  // the last token is not computed
  // The next turn: prompt, answer, and 20 new tokens.
  GenerationRequest turn = Request(100, 10);
  const std::vector<TokenId> answer = Ids(first);
  turn.prompt.insert(turn.prompt.end(), answer.begin(), answer.end());
  const std::vector<TokenId> more = Prompt(20);
  turn.prompt.insert(turn.prompt.end(), more.begin(), more.end());
  const GenerationResult second = MustRun(turn);
  EXPECT_EQ(second.figures.prompt_tokens, 130);
  EXPECT_EQ(second.figures.cached_tokens, 109);
  EXPECT_EQ(listener_.prefills.back(), (std::pair<int64_t, int64_t>(21, 21)));
  ExpectSameAnswer(second, MustRunCold(turn));
  // Another answer to the same first prompt.
  const GenerationResult again = MustRun(Request(100, 10));
  EXPECT_EQ(again.figures.cached_tokens, 99);  // the last token's logits are needed
  ExpectSameAnswer(again, first);
}

// Allocations between one token and the next, by the number of tokens before.
TEST_F(GeneratorTest, DecodeStepsAllocateNothingAfterWarmUp) {
  Open(512, 64);
  GenerationRequest request = Request(100, 200);
  request.sampling.num_top_logprobs = std::nullopt;
  MustRun(request);  // warm-up
  listener_ = Listener();
  std::vector<int64_t> counts;
  counts.reserve(1000);
  listener_.ids.reserve(1000);
  listener_.text.reserve(10000);
  listener_.on_token = [&] { counts.push_back(AllocationCount()); };
  const std::atomic<bool> cancel = false;
  ASSERT_TRUE(generator_->Generate(request, listener_, cancel).has_value());
  ASSERT_EQ(counts.size(), 200u);
  // The answer itself grows: its 200 tokens and their text double their room 8 and some 6 times.
  int64_t steps_with_allocations = 0;
  for (size_t i = 1; i < counts.size(); ++i) {
    if (counts[i] != counts[i - 1]) ++steps_with_allocations;
  }
  EXPECT_LE(steps_with_allocations, 20);
  std::cout << "steps of 199 that allocated: " << steps_with_allocations << "\n";
}

TEST_F(GeneratorTest, LogitsChecksItsArguments) {
  const std::atomic<bool> cancel = false;
  const auto visit = [](int64_t, std::span<const float>) {};
  EXPECT_EQ(generator_->Logits({}, {}, visit, cancel).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(generator_->Logits(Prompt(65), {0}, visit, cancel).error().code, ErrorCode::kInvalid);
  const std::vector<std::vector<int64_t>> bad_positions = {{-1}, {10}, {3, 3}, {4, 2}};
  for (const std::vector<int64_t>& bad : bad_positions) {
    EXPECT_EQ(generator_->Logits(Prompt(10), bad, visit, cancel).error().code, ErrorCode::kInvalid);
  }
  std::vector<int64_t> seen;
  const auto note = [&](int64_t position, std::span<const float> logits) {
    EXPECT_EQ(logits.size(), 320u);
    seen.push_back(position);
  };
  ASSERT_TRUE(generator_->Logits(Prompt(64), {0, 15, 16, 63}, note, cancel).has_value());
  EXPECT_THAT(seen, testing::ElementsAre(0, 15, 16, 63));
}

}  // namespace
}  // namespace baton
