// Many requests at once on a tiny model: whatever runs beside a request, its tokens and
// log-probabilities are those of the request alone, bit by bit; and every block comes back.
#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "engine/test_engine.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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

// A request of a mix: prompt length, content, and what the cache holds.
using Kind = std::tuple<int64_t, int64_t, KvType>;
struct MixEntry {
  Kind kind;
  std::shared_ptr<Listener> listener;
  uint64_t id;
};
using Answers = std::map<Kind, std::vector<std::pair<TokenId, double>>>;

// The answers over one type of cache are not those over the other.
void ExpectTypesDiffer(const Answers& answers) {
  for (const auto& [kind, choices] : answers) {
    const auto& [length, content, type] = kind;
    const auto other = answers.find({length, content, KvType::kF16});
    if (type == KvType::kF16 || other == answers.end()) continue;
    EXPECT_NE(other->second, choices) << length << ' ' << content;
  }
}

// 200 mixes: lengths, shared prefixes, arrivals, cancels, pool, disk, chunk, threads, cache type.
// The folder on disk is that of all, so what one type has cached lies before the other.
TEST_F(EngineTest, OneTokenOneAnswerUnderLoad) {
  Answers expected;
  const ScratchFolder folder;
  uint64_t preemptions = 0;
  uint64_t hits = 0;
  int64_t disk_hits = 0;
  for (uint64_t mix = 0; mix < 200; ++mix) {
    SCOPED_TRACE(testing::Message() << "mix " << mix);
    RandomStream random({.seed = mix, .stream = 1});
    kv_type_ = mix % 4 == 3 ? KvType::kQ8 : KvType::kF16;
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
    std::vector<MixEntry> entries;
    const uint64_t count = 3 + random.NextBelow(8);
    const std::atomic<bool> cancel = false;
    while (true) {
      if (entries.size() < count && random.NextBelow(4) == 0) {
        // Few kinds, so that prefixes are shared.
        const int64_t length = static_cast<int64_t>(1 + random.NextBelow(6) * 60);
        const Kind kind{length, static_cast<int64_t>(random.NextBelow(3)), kv_type_};
        entries.push_back(
            {kind, Submit(Request(Prompt(length, std::get<1>(kind)), 130)), last_id_});
      }
      if (!entries.empty() && random.NextBelow(60) == 0) {
        engine_->Cancel(entries[random.NextBelow(entries.size())].id);
      }
      const Result<bool> left = engine_->Step(cancel);
      ASSERT_TRUE(left.has_value()) << left.error().message;
      if (!*left && entries.size() == count) break;
    }
    for (const MixEntry& entry : entries) {
      ASSERT_EQ(entry.listener->num_done, 1);
      ASSERT_TRUE(entry.listener->done->has_value());
      if (!expected.contains(entry.kind)) {
        const auto& [length, content, type] = entry.kind;
        expected[entry.kind] = Alone(Request(Prompt(length, content), 130));
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
  ExpectTypesDiffer(expected);
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
