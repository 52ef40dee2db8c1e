// Many requests at once on a tiny model: whatever runs beside a request, its tokens and
// log-probabilities are those of the request alone, bit by bit; and every block comes back.
#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "engine/test_tiny_file.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// What a request was told, and how often it was told the end.
class Listener : public RequestObserver {
 public:
  void OnPrefill(int64_t done_tokens, int64_t total_tokens) override {
    prefills.emplace_back(done_tokens, total_tokens);
    if (on_prefill) on_prefill();
  }
  void OnToken(const SampledToken& token) override {
    tokens.push_back(token);
    if (on_token) on_token();
  }
  void OnText(std::string_view piece) override { text += piece; }
  void OnDone(Result<GenerationResult> result) override {
    ++num_done;
    done = std::move(result);
    if (on_done) on_done();
  }

  std::vector<std::pair<int64_t, int64_t>> prefills;
  std::vector<SampledToken> tokens;
  std::string text;
  std::function<void()> on_prefill;
  std::function<void()> on_token;
  std::function<void()> on_done;
  int num_done = 0;
  std::optional<Result<GenerationResult>> done;
};

// An empty folder that lives as long as the object.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = testing::TempDir() + "engine_XXXXXX";
    CHECK(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Ids and log-probabilities, to be compared by bits.
std::vector<std::pair<TokenId, double>> Choices(const std::vector<SampledToken>& tokens) {
  std::vector<std::pair<TokenId, double>> choices;
  for (const SampledToken& token : tokens) choices.emplace_back(token.id, token.raw_logprob);
  return choices;
}

class EngineTest : public testing::Test {
 protected:
  static constexpr int64_t kContext = 448;

  void Open(int num_threads, int64_t chunk_tokens) {
    Open(num_threads, chunk_tokens, std::nullopt);
  }
  void Open(int num_threads, int64_t chunk_tokens, std::optional<SparsePolicy> policy) {
    engine_.reset();
    Result<LoadedModel> model =
        LoadModel({.path = policy || wide_ ? wide_file_.path() : file_.path(),
                   .isa = BestIsa(),
                   .num_threads = num_threads,
                   .context_tokens = kContext,
                   .chunk_tokens = chunk_tokens,
                   .prefill_policy = std::move(policy),
                   .max_running = 4},
                  nullptr);
    ASSERT_TRUE(model.has_value()) << model.error().message;
    model_.emplace(*std::move(model));
  }
  EngineConfig Config() const { return EngineConfigOf(model_->options, kContext); }
  void Start(const EngineConfig& config) {
    engine_.reset();
    Result<std::unique_ptr<Engine>> engine = Engine::Make(*model_, config);
    ASSERT_TRUE(engine.has_value()) << engine.error().message;
    engine_ = *std::move(engine);
  }

  static std::vector<TokenId> Prompt(int64_t count, int64_t kind) {
    std::vector<TokenId> prompt;
    for (int64_t i = 0; i < count; ++i) {
      prompt.push_back(static_cast<TokenId>(kTinyFirstWord + (i * 7 + kind * (i % 5 + 1)) % 50));
    }
    return prompt;
  }
  static GenerationRequest Request(std::vector<TokenId> prompt, int64_t max_tokens) {
    GenerationRequest request;
    request.prompt = std::move(prompt);
    request.sampling.temperature = 1.0;
    request.sampling.seed = 7;
    request.sampling.num_top_logprobs = 0;
    request.max_tokens = max_tokens;
    request.ignore_end_tokens = true;
    return request;
  }
  std::shared_ptr<Listener> Submit(GenerationRequest request) {
    auto listener = std::make_shared<Listener>();
    const Result<uint64_t> id = engine_->Submit(std::move(request), listener);
    EXPECT_TRUE(id.has_value()) << (id ? "" : id.error().message);
    last_id_ = id.value_or(0);
    return listener;
  }
  // Steps until nothing is left.
  void Drain() {
    const std::atomic<bool> cancel = false;
    for (int i = 0; i < 100000; ++i) {
      const Result<bool> left = engine_->Step(cancel);
      ASSERT_TRUE(left.has_value()) << left.error().message;
      if (!*left) return;
      // Requests may wait for the disk.
      if (engine_->Status().running.empty()) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    }
    FAIL() << "the engine does not come to an end";
  }
  // What a request gives on an engine of its own that caches nothing.
  std::vector<std::pair<TokenId, double>> Alone(const GenerationRequest& request) {
    EngineConfig config = Config();
    config.max_running = 1;
    config.prefix_cache = false;
    Result<std::unique_ptr<Engine>> engine = Engine::Make(*model_, config);
    EXPECT_TRUE(engine.has_value());
    auto listener = std::make_shared<Listener>();
    EXPECT_TRUE((*engine)->Submit(request, listener).has_value());
    const std::atomic<bool> cancel = false;
    while (true) {
      const Result<bool> left = (*engine)->Step(cancel);
      if (!left || !*left) break;
    }
    return Choices(listener->tokens);
  }
  void ExpectIdle() {
    const EngineStatus status = engine_->Status();
    EXPECT_EQ(status.blocks_owned, 0);
    EXPECT_EQ(status.running.size(), 0u);
    EXPECT_EQ(status.waiting_requests, 0);
    EXPECT_EQ(status.waiting_tokens, 0);
  }

  const TinyFile file_{{.layers = 2, .sliding_window = 100}};
  // Without windows: what a sparse prefill leaves out matters.
  const TinyFile wide_file_{TinyModel{.layers = 2}};
  bool wide_ = false;
  std::optional<LoadedModel> model_;
  std::unique_ptr<Engine> engine_;
  uint64_t last_id_ = 0;
};

TEST_F(EngineTest, RequestsAmongOthersAreWhatTheyAreAlone) {
  Open(1, 64);
  Start(Config());
  std::vector<GenerationRequest> requests;
  for (int64_t i = 0; i < 9; ++i) requests.push_back(Request(Prompt(1 + 37 * i, i), 20 + 3 * i));
  std::vector<std::shared_ptr<Listener>> listeners;
  for (const GenerationRequest& request : requests) listeners.push_back(Submit(request));
  Drain();
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_EQ(listeners[i]->num_done, 1) << i;
    ASSERT_TRUE(listeners[i]->done->has_value()) << listeners[i]->done->error().message;
    const GenerationResult& result = **listeners[i]->done;
    EXPECT_EQ(result.stop_reason, StopReason::kLength);
    EXPECT_EQ(listeners[i]->text, result.text);
    EXPECT_EQ(Choices(listeners[i]->tokens), Alone(requests[i])) << i;
  }
  EXPECT_GT(engine_->Status().steps, 0u);
  ExpectIdle();
}

// A request's tokens once more: all whole blocks of the prompt but for the last token's are found.
TEST_F(EngineTest, ADocumentAskedTwiceIsReadOnce) {
  Open(1, 64);
  Start(Config());
  const std::vector<TokenId> document = Prompt(400, 1);
  std::vector<TokenId> first = document;
  first.push_back(kTinyFirstWord + 3);
  std::vector<TokenId> second = document;
  second.push_back(kTinyFirstWord + 4);
  const auto cold = Submit(Request(first, 8));
  Drain();
  EXPECT_EQ((*cold->done)->figures.cached_tokens, 0);
  const auto warm = Submit(Request(second, 8));
  Drain();
  EXPECT_EQ((*warm->done)->figures.cached_tokens, 384);
  EXPECT_EQ(Choices(warm->tokens), Alone(Request(second, 8)));
  // Another salt shares nothing.
  GenerationRequest salted = Request(second, 8);
  salted.cache_salt = {.low = 1, .high = 0};
  const auto apart = Submit(salted);
  Drain();
  EXPECT_EQ((*apart->done)->figures.cached_tokens, 0);
  EXPECT_EQ(Choices(apart->tokens), Choices(warm->tokens));
  EXPECT_EQ(engine_->Status().prefix_hit_tokens, 384u);
  ExpectIdle();
}

TEST_F(EngineTest, QuestionsOfOneDocumentThatArriveTogetherReadItOnce) {
  Open(1, 64);
  Start(Config());
  std::vector<std::shared_ptr<Listener>> listeners;
  std::vector<GenerationRequest> requests;
  for (int64_t i = 0; i < 4; ++i) {
    std::vector<TokenId> prompt = Prompt(320, 1);
    prompt.push_back(static_cast<TokenId>(kTinyFirstWord + i));
    requests.push_back(Request(prompt, 5));
    listeners.push_back(Submit(requests.back()));
  }
  Drain();
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ((*listeners[i]->done)->figures.cached_tokens, i == 0 ? 0 : 320) << i;
    EXPECT_EQ(Choices(listeners[i]->tokens), Alone(requests[i]));
  }
  EXPECT_EQ(engine_->Status().prompt_tokens, 321u + 3u);
}

// The next turn: what was said is found by content.
TEST_F(EngineTest, ANewTurnComputesOnlyWhatIsNew) {
  Open(1, 64);
  Start(Config());
  const auto turn = Submit(Request(Prompt(100, 2), 60));
  Drain();
  std::vector<TokenId> next = Prompt(100, 2);
  for (const SampledToken& token : turn->tokens) next.push_back(token.id);
  next.push_back(kTinyFirstWord);
  const auto second = Submit(Request(next, 5));
  Drain();
  // 159 tokens were computed: two whole blocks.
  EXPECT_EQ((*second->done)->figures.cached_tokens, 128);
  EXPECT_EQ(Choices(second->tokens), Alone(Request(next, 5)));
  // With a session, down to the token.
  GenerationRequest kept = Request(Prompt(100, 3), 60);
  kept.session = 9;
  const auto kept_turn = Submit(kept);
  Drain();
  EXPECT_EQ(engine_->SessionTokens(9), 159);
  next = Prompt(100, 3);
  for (const SampledToken& token : kept_turn->tokens) next.push_back(token.id);
  next.push_back(kTinyFirstWord);
  GenerationRequest goes_on = Request(next, 5);
  goes_on.session = 9;
  const auto kept_next = Submit(goes_on);
  Drain();
  EXPECT_EQ((*kept_next->done)->figures.cached_tokens, 159);
  EXPECT_EQ(Choices(kept_next->tokens), Alone(Request(next, 5)));
  engine_->DropSession(9);
  const auto last = Submit(Request(Prompt(3, 1), 1));
  Drain();
  ExpectIdle();
}

// What one engine computed, the next one finds on disk: another run, another chunk, more threads.
TEST_F(EngineTest, ACacheOnDiskOutlivesTheEngine) {
  const ScratchFolder folder;
  const GenerationRequest first = Request(Prompt(300, 1), 80);
  std::vector<TokenId> longer = Prompt(300, 1);
  for (int i = 0; i < 90; ++i) longer.push_back(static_cast<TokenId>(kTinyFirstWord + i % 7));
  Open(1, 64);
  EngineConfig config = Config();
  config.kv_disk_folder = folder.path();
  config.kv_disk_bytes = 100 << 20;
  Start(config);
  const auto cold = Submit(first);
  Drain();
  EXPECT_EQ((*cold->done)->figures.cached_tokens, 0);
  // 379 tokens were computed: five whole blocks.
  engine_.reset();
  Open(2, 100);
  Start(config);
  const auto warm = Submit(Request(longer, 8));
  Drain();
  EXPECT_EQ((*warm->done)->figures.cached_tokens, 256);
  EXPECT_EQ(engine_->Status().disk_blocks_read, 4);
  EXPECT_EQ(Choices(warm->tokens), Alone(Request(longer, 8)));
  // With no room but for what runs: it is read all the same, or computed, and is right.
  config.kv_tokens = kContext;
  Start(config);
  std::vector<std::shared_ptr<Listener>> listeners;
  for (int64_t i = 0; i < 6; ++i) listeners.push_back(Submit(Request(longer, 8 + i)));
  Drain();
  for (int64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(Choices(listeners[static_cast<size_t>(i)]->tokens), Alone(Request(longer, 8 + i)));
  }
  ExpectIdle();
}

TEST_F(EngineTest, ADiskThatCannotBeUsedIsToldAtOnce) {
  Open(1, 64);
  EngineConfig config = Config();
  config.kv_disk_folder = "/proc/nowhere";
  config.kv_disk_bytes = 100 << 20;
  const Result<std::unique_ptr<Engine>> none = Engine::Make(*model_, config);
  ASSERT_FALSE(none.has_value());
  EXPECT_THAT(none.error().message, HasSubstr("/proc/nowhere"));
  config.prefix_cache = false;
  EXPECT_EQ(Engine::Make(*model_, config).error().code, ErrorCode::kInvalid);
}

// P-06: two requests that together exceed the pool. The younger one gives way, and goes on later
// from where it was.
TEST_F(EngineTest, WhoGivesWayLosesNothing) {
  Open(1, 64);
  EngineConfig config = Config();
  config.kv_tokens = kContext;  // seven blocks
  Start(config);
  const GenerationRequest older = Request(Prompt(100, 1), 300);
  const GenerationRequest younger = Request(Prompt(90, 2), 300);
  const auto first = Submit(older);
  const auto second = Submit(younger);
  Drain();
  EXPECT_EQ((*first->done)->figures.preemptions, 0);
  EXPECT_GE((*second->done)->figures.preemptions, 1);
  EXPECT_EQ(engine_->Status().preemptions,
            static_cast<uint64_t>((*second->done)->figures.preemptions));
  EXPECT_EQ(Choices(first->tokens), Alone(older));
  EXPECT_EQ(Choices(second->tokens), Alone(younger));
  ExpectIdle();
}

TEST_F(EngineTest, WhatCanNeverBeIsRefusedAtOnceWithTheNumbers) {
  Open(1, 64);
  Start(Config());
  auto listener = std::make_shared<Listener>();
  for (const int64_t count : {kContext, kContext + 100}) {
    const Result<uint64_t> id = engine_->Submit(Request(Prompt(count, 1), 5), listener);
    ASSERT_FALSE(id.has_value());
    EXPECT_EQ(id.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(id.error().message,
                AllOf(HasSubstr(std::to_string(count)), HasSubstr(std::to_string(kContext))));
  }
  GenerationRequest wrong = Request({1, 99999}, 5);
  EXPECT_EQ(engine_->Submit(wrong, listener).error().code, ErrorCode::kInvalid);
  wrong = Request(Prompt(5, 1), 5);
  wrong.sampling.top_p = 1.5;
  EXPECT_EQ(engine_->Submit(wrong, listener).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(listener->num_done, 0);
  EngineConfig small = Config();
  small.kv_tokens = kContext - 1;
  const Result<std::unique_ptr<Engine>> none = Engine::Make(*model_, small);
  ASSERT_FALSE(none.has_value());
  EXPECT_THAT(none.error().message, AllOf(HasSubstr("447"), HasSubstr("448")));
}

TEST_F(EngineTest, TheQueueHasLimits) {
  Open(1, 64);
  EngineConfig config = Config();
  config.max_queue_requests = 3;
  config.max_queue_tokens = 100;
  Start(config);
  auto listener = std::make_shared<Listener>();
  EXPECT_TRUE(engine_->Submit(Request(Prompt(40, 1), 2), listener).has_value());
  EXPECT_TRUE(engine_->Submit(Request(Prompt(40, 2), 2), listener).has_value());
  const Result<uint64_t> tokens = engine_->Submit(Request(Prompt(40, 3), 2), listener);
  ASSERT_FALSE(tokens.has_value());
  EXPECT_EQ(tokens.error().code, ErrorCode::kExhausted);
  EXPECT_THAT(tokens.error().message, AllOf(HasSubstr("80"), HasSubstr("100")));
  EXPECT_TRUE(engine_->Submit(Request(Prompt(2, 3), 2), listener).has_value());
  EXPECT_EQ(engine_->Submit(Request(Prompt(2, 4), 2), listener).error().code,
            ErrorCode::kExhausted);
  Drain();
  EXPECT_EQ(listener->num_done, 3);
  EXPECT_TRUE(engine_->Submit(Request(Prompt(2, 4), 2), listener).has_value());
  Drain();
}

TEST_F(EngineTest, CancelBeforeDuringAndAfter) {
  Open(1, 32);
  Start(Config());
  const auto waiting = Submit(Request(Prompt(50, 1), 5));
  engine_->Cancel(last_id_);
  const auto running = Submit(Request(Prompt(50, 2), 50));
  const uint64_t running_id = last_id_;
  running->on_token = [&] {
    if (running->tokens.size() == 7) engine_->Cancel(running_id);
  };
  const auto other = Submit(Request(Prompt(60, 3), 20));
  Drain();
  EXPECT_EQ((*waiting->done)->stop_reason, StopReason::kCancelled);
  EXPECT_EQ(waiting->tokens.size(), 0u);
  EXPECT_EQ((*running->done)->stop_reason, StopReason::kCancelled);
  EXPECT_EQ(running->tokens.size(), 7u);
  EXPECT_EQ(Choices(other->tokens), Alone(Request(Prompt(60, 3), 20)));
  engine_->Cancel(running_id);
  engine_->Cancel(12345);
  const auto after = Submit(Request(Prompt(5, 3), 2));
  Drain();
  EXPECT_EQ((*after->done)->stop_reason, StopReason::kLength);
  for (const auto& listener : {waiting, running, other, after}) EXPECT_EQ(listener->num_done, 1);
  ExpectIdle();
}

TEST_F(EngineTest, DeadlinesEndWhoWaitsAndWhoRuns) {
  Open(1, 32);
  Start(Config());
  GenerationRequest hopeless = Request(Prompt(50, 1), 5);
  hopeless.deadline_seconds = 0.0;
  const auto expired = Submit(hopeless);
  GenerationRequest hurried = Request(Prompt(5, 1), 440);
  hurried.deadline_seconds = 0.002;
  const auto cut = Submit(hurried);
  const auto other = Submit(Request(Prompt(50, 3), 5));
  Drain();
  EXPECT_EQ((*expired->done)->stop_reason, StopReason::kDeadline);
  EXPECT_EQ((*cut->done)->stop_reason, StopReason::kDeadline);
  EXPECT_LT(cut->tokens.size(), 440u);
  EXPECT_EQ((*other->done)->stop_reason, StopReason::kLength);
  ExpectIdle();
}

// 200 mixes: lengths, shared prefixes, arrivals, cancels, pool, disk, chunk, threads.
TEST_F(EngineTest, OneTokenOneAnswerUnderLoad) {
  std::map<std::pair<int64_t, int64_t>, std::vector<std::pair<TokenId, double>>> expected;
  const ScratchFolder folder;
  uint64_t preemptions = 0;
  uint64_t hits = 0;
  int64_t disk_hits = 0;
  for (uint64_t mix = 0; mix < 200; ++mix) {
    SCOPED_TRACE(testing::Message() << "mix " << mix);
    RandomStream random({.seed = mix, .stream = 1});
    Open(static_cast<int>(1 + random.NextBelow(3)),
         static_cast<int64_t>(1 + random.NextBelow(200)));
    EngineConfig config = Config();
    config.max_running = static_cast<int32_t>(1 + random.NextBelow(4));
    config.kv_tokens = kContext + static_cast<int64_t>(random.NextBelow(4)) * 64;
    config.prefix_cache = random.NextBelow(4) != 0;
    config.min_progress_tokens = static_cast<int64_t>(1 + random.NextBelow(64));
    config.long_prompt_tokens = 100;
    if (config.prefix_cache && random.NextBelow(2) == 0) {
      config.kv_disk_folder = folder.path();
      config.kv_disk_bytes = 1 << 20;
    }
    Start(config);
    struct Entry {
      std::pair<int64_t, int64_t> kind;  // prompt length, content
      std::shared_ptr<Listener> listener;
      uint64_t id;
    };
    std::vector<Entry> entries;
    const uint64_t count = 3 + random.NextBelow(8);
    const std::atomic<bool> cancel = false;
    while (true) {
      if (entries.size() < count && random.NextBelow(4) == 0) {
        // Few kinds, so that prefixes are shared.
        const std::pair<int64_t, int64_t> kind{static_cast<int64_t>(1 + random.NextBelow(6) * 60),
                                               static_cast<int64_t>(random.NextBelow(3))};
        const auto listener = Submit(Request(Prompt(kind.first, kind.second), 130));
        entries.push_back({kind, listener, last_id_});
      }
      if (!entries.empty() && random.NextBelow(60) == 0) {
        engine_->Cancel(entries[random.NextBelow(entries.size())].id);
      }
      const Result<bool> left = engine_->Step(cancel);
      ASSERT_TRUE(left.has_value()) << left.error().message;
      if (!*left && entries.size() == count) break;
    }
    for (const Entry& entry : entries) {
      ASSERT_EQ(entry.listener->num_done, 1);
      ASSERT_TRUE(entry.listener->done->has_value());
      if (!expected.contains(entry.kind)) {
        expected[entry.kind] = Alone(Request(Prompt(entry.kind.first, entry.kind.second), 130));
      }
      auto alone = expected[entry.kind];
      // A cancelled one is cut, not changed.
      const bool was_cancelled = (*entry.listener->done)->stop_reason == StopReason::kCancelled;
      ASSERT_LE(entry.listener->tokens.size(), alone.size());
      if (was_cancelled) alone.resize(entry.listener->tokens.size());
      ASSERT_EQ(Choices(entry.listener->tokens), alone);
    }
    ExpectIdle();
    preemptions += engine_->Status().preemptions;
    hits += engine_->Status().prefix_hit_tokens;
    disk_hits += engine_->Status().disk_blocks_read;
  }
  // The mixes are what they are meant to be.
  EXPECT_GT(preemptions, 50u) << preemptions;
  EXPECT_GT(hits, 1000u);
  EXPECT_GT(disk_hits, 100);
}

// A sparse prefill is the same in any chunk, with any threads, among others, behind a prefix that
// was found in memory or on disk, and after giving way; and it is not the dense one.
TEST_F(EngineTest, ASparsePrefillIsWhatItIsAlone) {
  const SparsePolicy policy{.rule = SelectionRule::kShare,
                            .share = 0.3,
                            .estimate = BlockEstimate::kFar,
                            .sink_tokens = 64,
                            .window_tokens = 64,
                            .last_tiles = 1,
                            .min_prompt_tokens = 90};
  const ScratchFolder folder;
  std::map<std::pair<int64_t, int64_t>, std::vector<std::pair<TokenId, double>>> expected;
  wide_ = true;
  Open(1, 448);
  const auto dense = Alone(Request(Prompt(400, 1), 30));
  Open(1, 448, policy);
  EXPECT_NE(Alone(Request(Prompt(400, 1), 30)), dense);
  EXPECT_EQ(Alone(Request(Prompt(80, 1), 30)), [&] {
    Open(1, 448);
    return Alone(Request(Prompt(80, 1), 30));
  }());
  uint64_t hits = 0;
  uint64_t preemptions = 0;
  for (uint64_t mix = 0; mix < 60; ++mix) {
    SCOPED_TRACE(testing::Message() << "mix " << mix);
    RandomStream random({.seed = mix, .stream = 2});
    Open(static_cast<int>(1 + random.NextBelow(3)),
         64 * static_cast<int64_t>(1 + random.NextBelow(7)), policy);
    EngineConfig config = Config();
    config.max_running = static_cast<int32_t>(1 + random.NextBelow(4));
    config.kv_tokens = kContext + static_cast<int64_t>(random.NextBelow(4)) * 64;
    config.min_progress_tokens = static_cast<int64_t>(1 + random.NextBelow(64));
    if (random.NextBelow(2) == 0) {
      config.kv_disk_folder = folder.path();
      config.kv_disk_bytes = 1 << 20;
    }
    Start(config);
    std::vector<std::pair<std::pair<int64_t, int64_t>, std::shared_ptr<Listener>>> entries;
    for (int i = 0; i < 7; ++i) {
      const std::pair<int64_t, int64_t> kind{static_cast<int64_t>(20 + random.NextBelow(7) * 55),
                                             static_cast<int64_t>(random.NextBelow(2))};
      entries.emplace_back(kind, Submit(Request(Prompt(kind.first, kind.second), 130)));
    }
    Drain();
    hits += engine_->Status().prefix_hit_tokens;
    preemptions += engine_->Status().preemptions;
    for (const auto& [kind, listener] : entries) {
      if (!expected.contains(kind)) {
        expected[kind] = Alone(Request(Prompt(kind.first, kind.second), 130));
      }
      ASSERT_EQ(Choices(listener->tokens), expected[kind]) << kind.first << " " << kind.second;
      const std::optional<PrefillReport>& report = (*listener->done)->figures.prefill;
      ASSERT_EQ(report.has_value(), kind.first > 90);
    }
  }
  EXPECT_GT(hits, 1000u);
  EXPECT_GT(preemptions, 10u);
}

// What is evaluated is what a request sees, whatever the chunk: also one that is no multiple of a
// tile, and under a policy that leaves this prompt dense.
TEST_F(EngineTest, LogitsOfASparsePrefillAreTheSameForAnyChunk) {
  wide_ = true;
  SparsePolicy policy{.rule = SelectionRule::kShare,
                      .share = 0.3,
                      .estimate = BlockEstimate::kFar,
                      .sink_tokens = 64,
                      .window_tokens = 64,
                      .last_tiles = 1,
                      .min_prompt_tokens = 90};
  const auto logits = [&](int64_t chunk, const std::optional<SparsePolicy>& reads) {
    Open(2, chunk, reads);
    Start(Config());
    std::vector<std::vector<float>> rows;
    const std::atomic<bool> cancel = false;
    const Result<> done = engine_->Logits(
        Prompt(430, 1), {0, 63, 200, 331, 429},
        [&](int64_t, std::span<const float> row) { rows.emplace_back(row.begin(), row.end()); },
        cancel);
    EXPECT_TRUE(done.has_value()) << done.error().message;
    return rows;
  };
  const auto dense = logits(448, std::nullopt);
  const auto whole = logits(448, policy);
  EXPECT_NE(whole, dense);
  for (const int64_t chunk : {64, 100, 129, 200, 300}) {
    EXPECT_EQ(logits(chunk, policy), whole) << "chunk " << chunk;
  }
  policy.min_prompt_tokens = 430;
  EXPECT_EQ(logits(100, policy), dense);
}

// Six ways to read a prompt; the last is as the model was opened.
std::vector<PrefillWish> Wishes() {
  const SparsePolicy thin{.rule = SelectionRule::kShare,
                          .share = 0.3,
                          .estimate = BlockEstimate::kFar,
                          .sink_tokens = 64,
                          .window_tokens = 64,
                          .last_tiles = 1};
  SparsePolicy other = thin;
  other.rule = SelectionRule::kThreshold;
  other.alpha = 1.5f;  // nothing but what is always kept
  other.tile_positions = 64;
  SparsePolicy short_is_dense = thin;
  short_is_dense.min_prompt_tokens = 200;
  SparsePolicy all = thin;
  all.rule = SelectionRule::kAll;
  return {{.mode = PrefillMode::kDense},
          {.mode = PrefillMode::kSparse, .policy = thin},
          {.mode = PrefillMode::kSparse, .policy = other},
          {.mode = PrefillMode::kSparse, .policy = short_is_dense},
          {.mode = PrefillMode::kSparse, .policy = all},
          {.mode = PrefillMode::kDefault}};
}

// Requests of one engine, each with a policy of its own: dense, two sparse ones, one that leaves
// short prompts dense, and one that keeps all. None finds what another policy left, in memory or on
// disk.
TEST_F(EngineTest, RequestsOfDifferentPoliciesAreWhatTheyAreAlone) {
  const std::vector<PrefillWish> wishes = Wishes();
  wide_ = true;
  const ScratchFolder folder;
  const auto ask = [&](int64_t count, size_t wish) {
    GenerationRequest request = Request(Prompt(count, 1), 40);
    request.prefill = wishes[wish];
    return request;
  };
  std::map<std::pair<int64_t, size_t>, std::vector<std::pair<TokenId, double>>> expected;
  uint64_t hits = 0;
  int64_t disk_hits = 0;
  for (uint64_t mix = 0; mix < 40; ++mix) {
    SCOPED_TRACE(testing::Message() << "mix " << mix);
    RandomStream random({.seed = mix, .stream = 3});
    Open(static_cast<int>(1 + random.NextBelow(3)),
         64 * static_cast<int64_t>(1 + random.NextBelow(4)));
    EngineConfig config = Config();
    config.max_running = static_cast<int32_t>(1 + random.NextBelow(4));
    config.kv_tokens = kContext + static_cast<int64_t>(random.NextBelow(4)) * 64;
    if (random.NextBelow(2) == 0) {
      config.kv_disk_folder = folder.path();
      config.kv_disk_bytes = 4 << 20;
    }
    Start(config);
    struct Entry {
      std::pair<int64_t, size_t> kind;
      std::shared_ptr<Listener> listener;
    };
    std::vector<Entry> entries;
    std::vector<uint64_t> ids;
    for (int i = 0; i < 8; ++i) {
      const std::pair<int64_t, size_t> kind{static_cast<int64_t>(70 + random.NextBelow(4) * 110),
                                            random.NextBelow(wishes.size())};
      entries.push_back({kind, Submit(ask(kind.first, kind.second))});
      ids.push_back(last_id_);
    }
    // One is given up while its prompt is read, perhaps inside a step.
    const std::atomic<bool> go_on = false;
    ASSERT_TRUE(engine_->Step(go_on).has_value());
    const std::atomic<bool> give_up = true;
    if (random.NextBelow(2) == 0) {
      ASSERT_TRUE(engine_->Step(give_up).has_value());
    }
    const size_t cancelled = random.NextBelow(ids.size());
    engine_->Cancel(ids[cancelled]);
    Drain();
    hits += engine_->Status().prefix_hit_tokens;
    disk_hits += engine_->Status().disk_blocks_read;
    for (size_t i = 0; i < entries.size(); ++i) {
      const auto& [kind, listener] = entries[i];
      if (!expected.contains(kind)) expected[kind] = Alone(ask(kind.first, kind.second));
      auto alone = expected[kind];
      if (i == cancelled) alone.resize(std::min(alone.size(), listener->tokens.size()));
      ASSERT_EQ(Choices(listener->tokens), alone) << kind.first << " by wish " << kind.second;
      const GenerationFigures& figures = (*listener->done)->figures;
      const bool is_sparse =
          kind.second != 0 && kind.second != 5 && !(kind.second == 3 && kind.first <= 200);
      // One that was given up before it was queued has read nothing.
      ASSERT_EQ(figures.prefill.has_value(), is_sparse && (i != cancelled || figures.prefill));
      ASSERT_EQ(figures.prefill_policy.has_value(), kind.second != 5);
      ASSERT_EQ(figures.prefill_policy.value_or("dense") != "dense", is_sparse);
    }
    ExpectIdle();
  }
  EXPECT_GT(hits, 1000u);
  EXPECT_GT(disk_hits, 20);
}

// The ways of the mixes above are what they are meant to be.
TEST_F(EngineTest, PoliciesDifferAsTheySay) {
  wide_ = true;
  Open(1, 448);
  const auto answer = [&](int64_t count, size_t wish) {
    GenerationRequest request = Request(Prompt(count, 1), 40);
    request.prefill = Wishes()[wish];
    return Alone(request);
  };
  const auto dense = answer(400, 0);
  EXPECT_NE(answer(400, 1), dense);
  EXPECT_NE(answer(400, 2), dense);
  EXPECT_NE(answer(400, 2), answer(400, 1));
  EXPECT_EQ(answer(400, 3), answer(400, 1));
  EXPECT_EQ(answer(180, 3), answer(180, 0));
  EXPECT_EQ(answer(400, 4), dense);
  EXPECT_EQ(answer(400, 5), dense);
}

// What is saved serves only who would compute it: a short prompt, which its policy leaves dense, is
// no beginning of a long one that is sparse, and a sparse one is refused where prompts are dense.
TEST_F(EngineTest, SavedSequencesKeepTheirPolicy) {
  SparsePolicy policy = *Wishes()[1].policy;
  policy.min_prompt_tokens = 200;
  wide_ = true;
  const ScratchFolder folder;
  const auto ask = [&](int64_t count) {
    GenerationRequest request = Request(Prompt(count, 1), 20);
    request.session = 1;
    return request;
  };
  Open(1, 128, policy);
  const auto expected = Alone(ask(400));
  for (const int64_t count : {180, 300}) {
    const std::string path = folder.path() + "/" + std::to_string(count);
    Open(1, 128, policy);
    Start(Config());
    Submit(ask(count));
    Drain();
    ASSERT_TRUE(engine_->SaveSession(1, path, nullptr).has_value());
    Start(Config());
    const Result<> loaded = engine_->LoadSession(1, path, nullptr);
    ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
    const auto listener = Submit(ask(400));
    Drain();
    EXPECT_EQ(Choices(listener->tokens), expected) << count;
    // Tiles of the tail are not kept; dense blocks serve nobody here.
    EXPECT_EQ((*listener->done)->figures.cached_tokens > 0, count == 300);
    Open(1, 128);
    Start(Config());
    EXPECT_EQ(engine_->LoadSession(1, path, nullptr).has_value(), count == 180);
    engine_->DropSession(1);
  }
}

// Prompts around the borders of blocks and tiles, and one that is a single token again and again.
TEST_F(EngineTest, SparsePrefillsOfShortAndUniformPrompts) {
  const SparsePolicy policy{.rule = SelectionRule::kShare,
                            .share = 0.3,
                            .estimate = BlockEstimate::kFar,
                            .sink_tokens = 0,
                            .window_tokens = 1,
                            .last_tiles = 0};
  wide_ = true;
  Open(2, 64);
  Start(Config());
  std::vector<std::vector<TokenId>> prompts;
  for (const int64_t count : {1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129}) {
    prompts.push_back(Prompt(count, 1));
  }
  prompts.emplace_back(300, kTinyFirstWord);
  std::vector<GenerationRequest> requests;
  for (const std::vector<TokenId>& prompt : prompts) {
    requests.push_back(Request(prompt, 12));
    requests.back().prefill = {.mode = PrefillMode::kSparse, .policy = policy};
  }
  std::vector<std::shared_ptr<Listener>> listeners;
  for (const GenerationRequest& request : requests) listeners.push_back(Submit(request));
  Drain();
  Open(1, 448);
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_EQ(listeners[i]->num_done, 1);
    ASSERT_EQ(listeners[i]->tokens.size(), 12u);
    EXPECT_EQ(Choices(listeners[i]->tokens), Alone(requests[i])) << prompts[i].size();
    for (const SampledToken& token : listeners[i]->tokens) {
      EXPECT_TRUE(std::isfinite(token.raw_logprob));
    }
  }
}

TEST_F(EngineTest, WishesThatCannotBeAreRefused) {
  wide_ = true;
  Open(1, 64);
  EngineConfig config = Config();
  config.max_policy_bytes = 1 << 20;
  Start(config);
  const auto refusal = [&](const PrefillWish& wish) {
    GenerationRequest request = Request(Prompt(100, 1), 5);
    request.prefill = wish;
    const Result<uint64_t> id = engine_->Submit(request, std::make_shared<Listener>());
    const Result<> check = engine_->CheckPrefill(wish);
    EXPECT_FALSE(id.has_value());
    EXPECT_FALSE(check.has_value());
    return id ? std::string() : id.error().message;
  };
  const auto sparse = [](SparsePolicy policy) {
    return PrefillWish{.mode = PrefillMode::kSparse, .policy = std::move(policy)};
  };
  EXPECT_THAT(refusal({.mode = PrefillMode::kAuto}), testing::HasSubstr("baton tune"));
  EXPECT_THAT(refusal(sparse({.dense_layers = {2}})), testing::HasSubstr("0..1"));
  EXPECT_THAT(refusal(sparse({.tile_positions = 128})), testing::HasSubstr("at least 128"));
  EXPECT_THAT(refusal(sparse({.alpha = -1})), testing::HasSubstr("alpha"));
  config.max_policy_bytes = 100;
  Start(config);
  EXPECT_THAT(refusal(sparse({.tile_positions = 64})), testing::HasSubstr("workspace"));
  EXPECT_TRUE(engine_->CheckPrefill({.mode = PrefillMode::kDense}).has_value());
}

// The loop in a thread of its own, while others submit and cancel.
TEST_F(EngineTest, ManyThreadsSubmitAndCancel) {
  Open(2, 64);
  Start(Config());
  std::thread loop([&] {
    const Result<> run = engine_->Run();
    EXPECT_TRUE(run.has_value()) << run.error().message;
  });
  const auto expected = Alone(Request(Prompt(90, 1), 15));
  struct Done : Listener {
    void OnDone(Result<GenerationResult> result) override {
      Listener::OnDone(std::move(result));
      finished.store(true);
      finished.notify_all();
    }
    std::atomic<bool> finished = false;
  };
  std::vector<std::thread> clients;
  for (int client = 0; client < 4; ++client) {
    clients.emplace_back([&, client] {
      for (int i = 0; i < 10; ++i) {
        auto listener = std::make_shared<Done>();
        const Result<uint64_t> id = engine_->Submit(Request(Prompt(90, 1), 15), listener);
        ASSERT_TRUE(id.has_value()) << id.error().message;
        const bool cancels = (client + i) % 3 == 0;
        if (cancels) engine_->Cancel(*id);
        listener->finished.wait(false);
        if (!cancels) {
          EXPECT_EQ(Choices(listener->tokens), expected);
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
  engine_->Stop(/*drain=*/true);
  loop.join();
  auto late = std::make_shared<Listener>();
  EXPECT_EQ(engine_->Submit(Request(Prompt(5, 1), 5), late).error().code, ErrorCode::kUnavailable);
  ExpectIdle();
}

// The label's row among those that run; null if there is none.
const EngineStatus::Running* FindRunning(const EngineStatus& status, const std::string& label) {
  const auto found = std::find_if(status.running.begin(), status.running.end(),
                                  [&](const auto& running) { return running.label == label; });
  return found == status.running.end() ? nullptr : &*found;
}

TEST_F(EngineTest, StatusIsThatOfTheMoment) {
  Open(1, 64);
  Start(Config());
  // Nobody asks between two looks: each look sees what is.
  std::vector<std::shared_ptr<Listener>> listeners;
  int looks = 0;
  for (int i = 0; i < 6; ++i) {
    GenerationRequest request = Request(Prompt(200, i), 3 + i);
    request.label = "request " + std::to_string(i);
    const std::string label = request.label;
    listeners.push_back(Submit(std::move(request)));
    Listener& listener = *listeners.back();
    listener.on_prefill = [&, label] {
      const EngineStatus status = engine_->Status();
      const EngineStatus::Running* running = FindRunning(status, label);
      ASSERT_NE(running, nullptr) << label;
      EXPECT_TRUE(running->is_prefill);
      EXPECT_EQ(running->computed_tokens - running->cached_tokens, listener.prefills.back().first);
      EXPECT_GT(running->blocks, 0);
      ++looks;
    };
    listener.on_token = [&, label] {
      const EngineStatus status = engine_->Status();
      const EngineStatus::Running* running = FindRunning(status, label);
      ASSERT_NE(running, nullptr) << label;
      EXPECT_EQ(running->generated_tokens + 1, std::ssize(listener.tokens));
      EXPECT_EQ(running->computed_tokens, running->prompt_tokens + running->generated_tokens);
      ++looks;
    };
    listener.on_done = [&, label] {
      const EngineStatus status = engine_->Status();
      EXPECT_EQ(FindRunning(status, label), nullptr) << label;
      EXPECT_EQ(status.running.size() + status.waiting.size() + status.finished_requests, 6u);
      ++looks;
    };
  }
  // In the inbox they wait, too.
  const EngineStatus before = engine_->Status();
  EXPECT_EQ(before.running.size(), 0u);
  EXPECT_EQ(before.waiting_requests, 6);
  EXPECT_EQ(before.waiting_tokens, 6 * 200);
  ASSERT_EQ(before.waiting.size(), 6u);
  EXPECT_EQ(before.waiting[5].label, "request 5");
  EXPECT_GE(before.waiting[0].age_seconds, before.waiting[5].age_seconds);
  Drain();
  EXPECT_GT(looks, 6 * 3);
  const EngineStatus after = engine_->Status();
  EXPECT_EQ(after.finished_requests, 6u);
  EXPECT_GT(after.rates.prompt, 0);
  EXPECT_GT(after.rates.generated, 0);
  EXPECT_EQ(after.block_tokens, 64);
  ExpectIdle();
}

TEST_F(EngineTest, StatusMayBeAskedForByAnyThreadWhileAllChanges) {
  Open(2, 64);
  EngineConfig config = Config();
  config.kv_tokens = 576;
  Start(config);
  std::thread loop([&] { EXPECT_TRUE(engine_->Run().has_value()); });
  std::atomic<bool> ends = false;
  std::thread watcher([&] {
    const int64_t blocks = NumBlocksFor(576);
    while (!ends) {
      const EngineStatus status = engine_->Status();
      EXPECT_EQ(status.blocks_free + status.blocks_owned + status.blocks_cached, blocks);
      EXPECT_LE(status.running.size(), 4u);
      for (const EngineStatus::Running& running : status.running) {
        EXPECT_LE(running.cached_tokens, running.prompt_tokens);
        EXPECT_LE(running.computed_tokens, running.prompt_tokens + running.generated_tokens);
        EXPECT_EQ(running.label, std::to_string(running.prompt_tokens));
      }
      std::this_thread::yield();
    }
  });
  std::vector<std::shared_ptr<Listener>> listeners;
  for (int i = 0; i < 24; ++i) {
    GenerationRequest request = Request(Prompt(100 + i * 9, i % 5), 1 + i % 7 * 5);
    request.label = std::to_string(request.prompt.size());
    listeners.push_back(Submit(std::move(request)));
    if (i % 5 == 4) engine_->Cancel(last_id_);
  }
  engine_->Stop(/*drain=*/true);
  loop.join();
  ends = true;
  watcher.join();
  for (const auto& listener : listeners) EXPECT_EQ(listener->num_done, 1);
  ExpectIdle();
}

TEST_F(EngineTest, StopAtOnceEndsAllAsCancelled) {
  Open(1, 64);
  Start(Config());
  std::vector<std::shared_ptr<Listener>> listeners;
  for (int i = 0; i < 8; ++i) listeners.push_back(Submit(Request(Prompt(300, i), 140)));
  std::thread loop([&] { EXPECT_TRUE(engine_->Run().has_value()); });
  while (engine_->Status().steps < 3) std::this_thread::yield();
  engine_->Stop(/*drain=*/false);
  loop.join();
  for (const auto& listener : listeners) {
    ASSERT_EQ(listener->num_done, 1);
    EXPECT_EQ((*listener->done)->stop_reason, StopReason::kCancelled);
  }
  ExpectIdle();
}

}  // namespace
}  // namespace baton
