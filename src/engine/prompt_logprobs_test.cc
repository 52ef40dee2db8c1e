// Log-probabilities of a prompt's tokens: those of the logits that `eval logits` has, bit by bit,
// whatever the chunk, the threads, the cache, the others, and however often it gave way.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "engine/test_engine.h"
#include "sample/sampler.h"

namespace baton {
namespace {

constexpr int64_t kNumTop = 3;

// All that is told of a token, to be compared by bits.
struct Told {
  TokenId id = 0;
  bool has_logprobs = false;
  double logprob = 0;
  std::vector<std::pair<TokenId, double>> top = {};

  friend bool operator==(const Told&, const Told&) = default;
};

Told ToldOf(const SampledToken& token) {
  Told told{
      .id = token.id, .has_logprobs = token.has_logprobs, .logprob = token.raw_logprob, .top = {}};
  for (const TokenLogprob& other : token.raw_top) told.top.emplace_back(other.id, other.logprob);
  return told;
}

std::vector<Told> AllTold(const std::vector<SampledToken>& tokens) {
  std::vector<Told> all;
  for (const SampledToken& token : tokens) all.push_back(ToldOf(token));
  return all;
}

class PromptListener final : public RequestObserver {
 public:
  void OnPrefill(int64_t, int64_t) override {}
  void OnPrompt(std::vector<SampledToken> tokens) override {
    EXPECT_TRUE(answer.empty());
    ++num_prompts;
    prompt = AllTold(tokens);
  }
  void OnToken(const SampledToken& token) override { answer.push_back(ToldOf(token)); }
  void OnText(std::string_view) override {}
  void OnDone(Result<GenerationResult> result) override { done = std::move(result); }

  int num_prompts = 0;
  std::vector<Told> prompt;
  std::vector<Told> answer;
  std::optional<Result<GenerationResult>> done;
};

class PromptLogprobs : public EngineTest {
 protected:
  static GenerationRequest Request(std::vector<TokenId> prompt, int64_t max_tokens) {
    GenerationRequest request;
    request.prompt = std::move(prompt);
    request.prompt_logprobs = true;
    request.sampling.temperature = 1.0;
    request.sampling.seed = 7;
    request.sampling.num_top_logprobs = kNumTop;
    request.max_tokens = max_tokens;
    request.ignore_end_tokens = true;
    return request;
  }
  std::shared_ptr<PromptListener> Submit(GenerationRequest request) {
    auto listener = std::make_shared<PromptListener>();
    const Result<uint64_t> id = engine_->Submit(std::move(request), listener);
    EXPECT_TRUE(id.has_value()) << (id ? "" : id.error().message);
    return listener;
  }
  // From the logits of all positions at once, by an engine that does nothing else.
  std::vector<Told> Expected(const std::vector<TokenId>& prompt) {
    EngineConfig config = Config();
    config.max_running = 1;
    Result<std::unique_ptr<Engine>> engine = Engine::Make(*model_, config);
    EXPECT_TRUE(engine.has_value());
    std::vector<int64_t> positions(prompt.size() - 1);
    std::iota(positions.begin(), positions.end(), 0);
    std::vector<Told> expected = {Told{.id = prompt.front()}};
    Sampler sampler(model_->model->spec().vocab_size);
    const std::atomic<bool> cancel = false;
    const auto visit = [&](int64_t position, std::span<const float> logits) {
      const TokenId next = prompt[static_cast<size_t>(position + 1)];
      const Result<SampledToken> score = sampler.Score(logits, next, kNumTop);
      ASSERT_TRUE(score.has_value());
      long double sum = 0;
      for (const float logit : logits) sum += std::exp(static_cast<long double>(logit));
      const long double exact =
          static_cast<long double>(logits[static_cast<size_t>(next)]) - std::log(sum);
      EXPECT_NEAR(score->raw_logprob, static_cast<double>(exact), 1e-12);
      expected.push_back(ToldOf(*score));
    };
    if (!positions.empty()) {
      EXPECT_TRUE((*engine)->Logits(prompt, positions, visit, cancel).has_value());
    }
    return expected;
  }
};

TEST_F(PromptLogprobs, AreThoseOfTheLogitsInAnyChunk) {
  Open(1, 448);
  std::map<int64_t, std::vector<Told>> expected;
  for (const int64_t count : {1, 2, 64, 65, 200, 447}) expected[count] = Expected(Prompt(count, 1));
  for (const int64_t chunk : {1, 7, 16, 17, 64, 128, 448}) {
    Open(static_cast<int>(1 + chunk % 3), chunk);
    Start(Config());
    for (const auto& [count, wanted] : expected) {
      const auto listener = Submit(Request(Prompt(count, 1), 1));
      Drain();
      ASSERT_EQ(listener->num_prompts, 1);
      EXPECT_EQ(listener->prompt, wanted) << count << " in chunks of " << chunk;
      EXPECT_EQ(listener->answer.size(), 1u);
    }
    ExpectIdle();
  }
}

// Asked for alone: the prompt is computed, and no token is chosen. One more than it has room for.
TEST_F(PromptLogprobs, WithoutAnAnswer) {
  Open(1, 64);
  Start(Config());
  for (const int64_t count : {1, 5, 130, 447}) {
    const auto listener = Submit(Request(Prompt(count, 2), 0));
    Drain();
    EXPECT_EQ(listener->prompt, Expected(Prompt(count, 2))) << count;
    EXPECT_TRUE(listener->answer.empty());
    ASSERT_TRUE(listener->done && listener->done->has_value());
    EXPECT_EQ((*listener->done)->stop_reason, StopReason::kLength);
    EXPECT_EQ((*listener->done)->figures.generated_tokens, 0);
  }
  EXPECT_EQ(engine_->Status().generated_tokens, 0u);
  ExpectIdle();
}

// The cache has the prompt, and all of it is computed again; the next one without finds it.
TEST_F(PromptLogprobs, NothingIsTakenFromTheCacheThatHasToBeTold) {
  Open(1, 64);
  Start(Config());
  GenerationRequest plain = Request(Prompt(300, 1), 2);
  plain.prompt_logprobs = false;
  const auto first = Submit(plain);
  Drain();
  EXPECT_EQ(first->num_prompts, 0);
  const auto told = Submit(Request(Prompt(300, 1), 2));
  Drain();
  EXPECT_EQ((*told->done)->figures.cached_tokens, 0);
  EXPECT_EQ(told->prompt, Expected(Prompt(300, 1)));
  EXPECT_EQ(told->answer, first->answer);
  const auto last = Submit(plain);
  Drain();
  EXPECT_EQ((*last->done)->figures.cached_tokens, 256);
  GenerationRequest kept = Request(Prompt(100, 2), 3);
  kept.session = 5;
  for (int i = 0; i < 2; ++i) {
    const auto turn = Submit(kept);
    Drain();
    EXPECT_EQ(turn->prompt, Expected(Prompt(100, 2)));
  }
  engine_->DropSession(5);
  (void)Submit(Request(Prompt(3, 1), 1));
  Drain();
  ExpectIdle();
}

TEST_F(PromptLogprobs, NeedANumberOfAlternatives) {
  Open(1, 64);
  Start(Config());
  GenerationRequest request = Request(Prompt(5, 1), 1);
  request.sampling.num_top_logprobs.reset();
  const Result<uint64_t> id = engine_->Submit(request, std::make_shared<PromptListener>());
  ASSERT_FALSE(id.has_value());
  EXPECT_EQ(id.error().code, ErrorCode::kInvalid);
}

// Beside others that share their prefixes, in a pool so small that they give way.
TEST_F(PromptLogprobs, AmongOthersAndPreempted) {
  std::map<std::pair<int64_t, int64_t>, std::vector<Told>> expected;
  uint64_t preemptions = 0;
  uint64_t hits = 0;
  for (uint64_t mix = 0; mix < 60; ++mix) {
    SCOPED_TRACE(testing::Message() << "mix " << mix);
    RandomStream random({.seed = mix, .stream = 3});
    Open(static_cast<int>(1 + random.NextBelow(3)),
         static_cast<int64_t>(1 + random.NextBelow(200)));
    EngineConfig config = Config();
    config.max_running = static_cast<int32_t>(2 + random.NextBelow(3));
    config.kv_tokens = kContext + static_cast<int64_t>(random.NextBelow(3)) * 64;
    config.prefix_cache = random.NextBelow(4) != 0;
    config.min_progress_tokens = static_cast<int64_t>(1 + random.NextBelow(64));
    config.long_prompt_tokens = 100;
    Start(config);
    std::vector<std::pair<std::pair<int64_t, int64_t>, std::shared_ptr<PromptListener>>> entries;
    for (int i = 0; i < 8; ++i) {
      const std::pair<int64_t, int64_t> kind{static_cast<int64_t>(1 + random.NextBelow(6) * 55),
                                             static_cast<int64_t>(random.NextBelow(2))};
      GenerationRequest request =
          Request(Prompt(kind.first, kind.second), static_cast<int64_t>(random.NextBelow(200)));
      request.prompt_logprobs = random.NextBelow(2) == 0;
      request.priority = static_cast<int32_t>(random.NextBelow(2));
      const bool is_told = request.prompt_logprobs;
      const auto listener = Submit(std::move(request));
      if (is_told) entries.emplace_back(kind, listener);
    }
    Drain();
    for (const auto& [kind, listener] : entries) {
      if (!expected.contains(kind)) expected[kind] = Expected(Prompt(kind.first, kind.second));
      ASSERT_EQ(listener->num_prompts, 1);
      ASSERT_EQ(listener->prompt, expected[kind]) << kind.first << " " << kind.second;
      ASSERT_TRUE(listener->done && listener->done->has_value());
    }
    ExpectIdle();
    preemptions += engine_->Status().preemptions;
    hits += engine_->Status().prefix_hit_tokens;
  }
  EXPECT_GT(preemptions, 10u);
  EXPECT_GT(hits, 100u);
}

}  // namespace
}  // namespace baton
