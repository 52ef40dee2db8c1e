// Sparse prefills among requests: each is what it is alone, whatever policy the others have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "engine/test_engine.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

// Keeps so little that what is left out of the tiny model's prompts matters.
SparsePolicy ThinPolicy() {
  return {.rule = SelectionRule::kShare,
          .share = 0.3,
          .estimate = BlockEstimate::kFar,
          .sink_tokens = 64,
          .window_tokens = 64,
          .last_tiles = 1};
}

// The same, and prompts up to that length are dense.
SparsePolicy ThinBeyond(int64_t min_prompt_tokens) {
  SparsePolicy policy = ThinPolicy();
  policy.min_prompt_tokens = min_prompt_tokens;
  return policy;
}

// A sparse prefill is the same in any chunk, with any threads, among others, behind a prefix that
// was found in memory or on disk, and after giving way; and it is not the dense one.
TEST_F(EngineTest, ASparsePrefillIsWhatItIsAlone) {
  const SparsePolicy policy = ThinBeyond(90);
  const ScratchFolder folder;
  using Kind = std::tuple<int64_t, int64_t, KvType>;  // prompt length, content
  std::map<Kind, std::vector<std::pair<TokenId, double>>> expected;
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
    kv_type_ = mix % 3 == 2 ? KvType::kQ8 : KvType::kF16;
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
    std::vector<std::pair<Kind, std::shared_ptr<Listener>>> entries;
    for (int i = 0; i < 7; ++i) {
      const int64_t length = static_cast<int64_t>(20 + random.NextBelow(7) * 55);
      const Kind kind{length, static_cast<int64_t>(random.NextBelow(2)), kv_type_};
      entries.emplace_back(kind, Submit(Request(Prompt(length, std::get<1>(kind)), 130)));
    }
    Drain();
    hits += engine_->Status().prefix_hit_tokens;
    preemptions += engine_->Status().preemptions;
    for (const auto& [kind, listener] : entries) {
      const auto& [length, content, type] = kind;
      if (!expected.contains(kind)) {
        expected[kind] = Alone(Request(Prompt(length, content), 130));
      }
      ASSERT_EQ(Choices(listener->tokens), expected[kind]) << length << " " << content;
      const std::optional<PrefillReport>& report = (*listener->done)->figures.prefill;
      ASSERT_EQ(report.has_value(), length > 90);
    }
  }
  EXPECT_GT(hits, 1000u);
  EXPECT_GT(preemptions, 10u);
}

// What is evaluated is what a request sees, whatever the chunk: also one that is no multiple of a
// tile, and under a policy that leaves this prompt dense.
TEST_F(EngineTest, LogitsOfASparsePrefillAreTheSameForAnyChunk) {
  wide_ = true;
  SparsePolicy policy = ThinBeyond(90);
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
  const SparsePolicy thin = ThinPolicy();
  SparsePolicy other = thin;
  other.rule = SelectionRule::kThreshold;
  other.alpha = 1.5f;  // nothing but what is always kept
  other.tile_positions = 64;
  SparsePolicy all = thin;
  all.rule = SelectionRule::kAll;
  return {{.mode = PrefillMode::kDense},
          {.mode = PrefillMode::kSparse, .policy = thin},
          {.mode = PrefillMode::kSparse, .policy = other},
          {.mode = PrefillMode::kSparse, .policy = ThinBeyond(200)},
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
  const SparsePolicy policy = ThinBeyond(200);
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
  SparsePolicy policy = ThinPolicy();
  policy.sink_tokens = 0;
  policy.window_tokens = 1;
  policy.last_tiles = 0;
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

}  // namespace
}  // namespace baton
