// One token, one answer, with prompts up to 4,000 tokens: mixes of requests in which lengths,
// shared prefixes, arrivals, cancels, pool, disk, chunk and threads are random, against the same
// requests alone. In every other mix the pool holds what is admitted and hardly its answers, so
// that sequences are preempted. 200 of them with a tiny model; and with SmolLM2, of which ten take
// minutes on two cores, so that tests/nightly runs the 200 and ./check none:
//   engine_test --gtest_also_run_disabled_tests --gtest_filter='*MixesTest.*'
// Ten of them: --gtest_filter='*MixesTest.*/0', to 19.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/test_paths.h"
#include "engine/test_engine.h"

namespace baton {
namespace {

// More than the block that admission promises.
constexpr int64_t kAnswer = 140;
constexpr uint64_t kMixes = 10;  // of a test

// A prompt: its length, and what its beginning is shared with.
using Asked = std::pair<int64_t, uint64_t>;

// What a mix draws from: few lengths and contents, so that prefixes are shared and the answers
// known. The pool, of `least_pool` tokens and up to `spare_blocks` more, holds any one request.
struct MixKind {
  int64_t context = 0;
  int64_t least_pool = 0;         // tokens
  std::vector<Asked> first = {};  // of the requests; the others are random
  std::vector<int64_t> lengths;
  uint64_t num_contents = 0;
  uint64_t spare_blocks = 0;
  uint64_t least_running = 0;
  uint64_t least_requests = 0;
  uint64_t steps_per_cancel = 0;
};
MixKind Wide() {
  return {.context = 4224,
          .least_pool = 4224,
          .lengths = {1, 63, 400, 1000, 1400, 2000, 4000},
          .num_contents = 2,
          .spare_blocks = 5,
          .least_running = 2,
          .least_requests = 3,
          .steps_per_cancel = 80};
}
// The first two fit at first: 10 blocks for the older one with its answer, and the younger one's
// prompt with the block that it is promised. With both answers they would be 20.
MixKind Tight() {
  return {.context = 704,
          .least_pool = 1152,
          .first = {{440, 0}, {440, 1}},
          .lengths = {1, 63, 440, 470, 510, 540},
          .num_contents = 3,
          .spare_blocks = 0,
          .least_running = 3,
          .least_requests = 5,
          .steps_per_cancel = 400};
}

// The tokens that a prompt is made of: `count` of them from `first` on.
struct Words {
  TokenId first = 0;
  uint64_t count = 0;
};

std::vector<TokenId> PromptOf(const Asked& asked, const Words& words) {
  std::vector<TokenId> prompt;
  RandomStream random({.seed = asked.second, .stream = 4});
  for (int64_t i = 0; i < asked.first; ++i) {
    prompt.push_back(words.first + static_cast<TokenId>(random.NextBelow(words.count)));
  }
  return prompt;
}

class MixesRig : protected EngineRig {
 protected:
  explicit MixesRig(const Words& words) : words_(words) {}

  void Open(const std::string& path, RandomStream& random, int64_t context) {
    OpenModel({.path = path,
               .isa = BestIsa(),
               .num_threads = static_cast<int>(1 + random.NextBelow(3)),
               .context_tokens = context,
               .chunk_tokens = static_cast<int64_t>(16 + random.NextBelow(500)),
               .max_running = 5});
  }

  // What was asked gives alone, by the model as it is open.
  const std::vector<std::pair<TokenId, double>>& AloneOnce(const Asked& asked) {
    std::vector<std::pair<TokenId, double>>& tokens = alone_[asked];
    if (tokens.empty()) tokens = Alone(Request(PromptOf(asked, words_), kAnswer));
    return tokens;
  }

  void RunMix(const std::string& path, uint64_t mix) {
    RandomStream random({.seed = mix, .stream = 5});
    const MixKind kind = mix % 2 == 0 ? Wide() : Tight();
    ASSERT_NO_FATAL_FAILURE(Open(path, random, kind.context));
    EngineConfig config = Config();
    config.max_running = static_cast<int32_t>(kind.least_running + random.NextBelow(3));
    config.kv_tokens =
        kind.least_pool + static_cast<int64_t>(random.NextBelow(kind.spare_blocks + 1)) * 64;
    config.prefix_cache = random.NextBelow(5) != 0;
    config.min_progress_tokens = static_cast<int64_t>(1 + random.NextBelow(16));
    config.long_prompt_tokens = 1000;
    if (config.prefix_cache && random.NextBelow(2) == 0) {
      config.kv_disk_folder = folder_.path();
      config.kv_disk_bytes = 200 << 20;
    }
    ASSERT_NO_FATAL_FAILURE(Start(config));
    struct Entry {
      Asked asked;
      std::shared_ptr<Listener> listener;
      uint64_t id;
    };
    std::vector<Entry> entries;
    const uint64_t count = kind.least_requests + random.NextBelow(3);
    while (true) {
      if (entries.size() < count && random.NextBelow(3) == 0) {
        Asked asked{kind.lengths[random.NextBelow(kind.lengths.size())],
                    random.NextBelow(kind.num_contents)};
        if (entries.size() < kind.first.size()) asked = kind.first[entries.size()];
        const auto listener = Submit(Request(PromptOf(asked, words_), kAnswer));
        entries.push_back({asked, listener, last_id_});
      }
      if (!entries.empty() && random.NextBelow(kind.steps_per_cancel) == 0) {
        engine_->Cancel(entries[random.NextBelow(entries.size())].id);
      }
      if (!StepOnce() && entries.size() == count) break;
    }
    const EngineStatus status = engine_->Status();
    EXPECT_EQ(status.blocks_owned, 0);
    preemptions_ += status.preemptions;
    hit_tokens_ += status.prefix_hit_tokens;
    for (const Entry& entry : entries) {
      ASSERT_TRUE(entry.listener->done && entry.listener->done->has_value());
      auto expected = AloneOnce(entry.asked);
      ASSERT_EQ(std::ssize(expected), kAnswer);
      // A cancelled one is cut, not changed.
      const bool was_cancelled = (**entry.listener->done).stop_reason == StopReason::kCancelled;
      ASSERT_LE(entry.listener->tokens.size(), expected.size());
      if (was_cancelled) expected.resize(entry.listener->tokens.size());
      ASSERT_EQ(Choices(entry.listener->tokens), expected)
          << entry.asked.first << " " << entry.asked.second;
    }
  }

  // They share what they can, and give way.
  void ExpectSharedAndPreempted() const {
    EXPECT_GT(hit_tokens_, 1000u);
    EXPECT_GT(preemptions_, 0u);
  }

  const Words words_;
  const ScratchFolder folder_;
  std::map<Asked, std::vector<std::pair<TokenId, double>>> alone_;
  uint64_t preemptions_ = 0;
  uint64_t hit_tokens_ = 0;
};

class TinyMixesTest : public testing::Test, protected MixesRig {
 protected:
  TinyMixesTest() : MixesRig({.first = kTinyFirstWord, .count = 50}) {}

  const TinyFile file_{TinyModel{.layers = 2, .context = 4224}};
};

TEST_F(TinyMixesTest, OneTokenOneAnswerWithLongPrompts) {
  for (uint64_t mix = 0; mix < 200; ++mix) {
    SCOPED_TRACE(testing::Message() << "mix " << mix);
    ASSERT_NO_FATAL_FAILURE(RunMix(file_.path(), mix));
  }
  ExpectSharedAndPreempted();
}

class MixesTest : public testing::TestWithParam<uint64_t>, protected MixesRig {
 protected:
  MixesTest() : MixesRig({.first = 100, .count = 40'000}) {}
};

TEST_P(MixesTest, DISABLED_OneTokenOneAnswerWithAModel) {
  BATON_CACHED_FILE_OR_SKIP(path, "smollm2-135m-instruct-q4_1.gguf");
  for (uint64_t mix = GetParam() * kMixes; mix < (GetParam() + 1) * kMixes; ++mix) {
    SCOPED_TRACE(testing::Message() << "mix " << mix);
    ASSERT_NO_FATAL_FAILURE(RunMix(path, mix));
    std::printf("mix %llu: equal; %llu preemptions, %llu tokens found so far\n",
                static_cast<unsigned long long>(mix), static_cast<unsigned long long>(preemptions_),
                static_cast<unsigned long long>(hit_tokens_));
    std::fflush(stdout);
  }
  ExpectSharedAndPreempted();
}
INSTANTIATE_TEST_SUITE_P(Tens, MixesTest, testing::Range(uint64_t{0}, uint64_t{20}));

}  // namespace
}  // namespace baton
