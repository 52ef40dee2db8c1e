#include "evaluate/left_out.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "engine/test_tiny_file.h"
#include "engine/test_tiny_vocabulary.h"
#include "evaluate/density.h"
#include "kernels/sparse_policy_text.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

class LeftOutTest : public testing::Test {
 protected:
  static LoadedModel Open(const TinyFile& file) {
    Result<LoadedModel> model = LoadModel(
        {.path = file.path(), .isa = BestIsa(), .num_threads = 2, .context_tokens = 1536}, nullptr);
    CHECK(model.has_value());
    return *std::move(model);
  }
  static SparsePolicy Policy(const std::string& words) {
    const Result<SparsePolicy> policy = ParsePolicy(words, DefaultSparsePolicy());
    CHECK(policy.has_value());
    return *policy;
  }

  // Whether a prefill of so many tokens leaves a block out.
  static bool LeavesOut(const SparsePolicy& policy, int64_t num_tokens, LoadedModel& model) {
    std::vector<TokenId> tokens;
    for (int64_t i = 0; i < num_tokens; ++i) {
      tokens.push_back(static_cast<TokenId>(kTinyFirstWord + i * i % 50));
    }
    const std::atomic<bool> go_on = false;
    const Result<DensityResult> result =
        MeasureDensity(model, tokens, {.policy = policy}, nullptr, go_on);
    EXPECT_TRUE(result.has_value());
    for (const std::vector<BlockCounts>& layer : result->counts) {
      for (const BlockCounts& head : layer) {
        if (head.kept < head.candidates) return true;
      }
    }
    return false;
  }
  static void ExpectFirst(const std::string& words, LoadedModel& model) {
    const SparsePolicy policy = Policy(words);
    const std::optional<int64_t> first = FirstSparseLength(policy, model.model->spec());
    ASSERT_TRUE(first.has_value()) << words;
    EXPECT_TRUE(LeavesOut(policy, *first, model)) << words << ": " << *first;
    EXPECT_FALSE(LeavesOut(policy, *first - 1, model)) << words << ": " << *first;
  }

  const TinyFile file_{TinyModel{.layers = 2}};
  // All layers see 200 tokens.
  const TinyFile windowed_{TinyModel{.layers = 2, .sliding_window = 200}};
};

// A prefill of so many tokens leaves something out, one of a token less does not.
TEST_F(LeftOutTest, TheFirstLengthIsThatOfTheOperator) {
  LoadedModel model = Open(file_);
  for (const char* const words :
       {"", "rule=share:0.9", "rule=share:0.25,3", "last=0", "last=0 sink=0 window=1",
        "rule=none sink=128 window=64 last=1", "block=128 tile=64", "tile=16 last=3", "min=900",
        "energy=random:3", "dense-layers=1", "dense-heads=0:0,1:0 last=1",
        "rule=share:1 shares=1:0:0.4", "rule=share:0.3 shares=0:0.9,1:0.8"}) {
    ExpectFirst(words, model);
  }
  // What a threshold keeps is the tokens' doing.
  const SparsePolicy threshold = Policy("rule=threshold:1");
  const int64_t first = FirstSparseLength(threshold, model.model->spec()).value();
  EXPECT_FALSE(LeavesOut(threshold, first - 1, model));
  LoadedModel windowed = Open(windowed_);
  ExpectFirst("windows=sparse rule=none sink=0 window=1 last=1", windowed);
  ExpectFirst("windows=sparse rule=share:0.3 sink=0 window=1 last=0", windowed);
}

TEST_F(LeftOutTest, SomePoliciesNeverLeaveAnythingOut) {
  const LoadedModel model = Open(file_);
  for (const char* const words : {"rule=all", "rule=share:1", "dense-layers=0,1", "min=16777216"}) {
    EXPECT_EQ(FirstSparseLength(Policy(words), model.model->spec()), std::nullopt) << words;
  }
  const LoadedModel windowed = Open(windowed_);
  const ModelSpec& spec = windowed.model->spec();
  EXPECT_EQ(FirstSparseLength(Policy(""), spec), std::nullopt);
  // Sink and window are all of what is in sight.
  EXPECT_EQ(FirstSparseLength(Policy("windows=sparse"), spec), std::nullopt);
}

TEST_F(LeftOutTest, TheSentenceNamesLengthsPoliciesAndTheFirstLength) {
  const LoadedModel model = Open(file_);
  const ModelSpec& spec = model.model->spec();
  EXPECT_EQ(NothingLeftOutText({}, spec), "");
  EXPECT_EQ(NothingLeftOutText({{.policy = Policy(""), .lengths = {}}}, spec), "");
  const std::string text =
      NothingLeftOutText({{.policy = Policy(""), .lengths = {1}},
                          {.policy = Policy("min=1499"), .lengths = {300, 600}},
                          {.policy = Policy("rule=all"), .lengths = {2000}}},
                         spec);
  EXPECT_THAT(text, HasSubstr("nothing was left out of 1 token by 'default' (something from "));
  EXPECT_THAT(text, HasSubstr(", of 300 and 600 tokens by 'min=1499' (something from 1,500 "
                              "tokens on), of 2,000 tokens by 'rule=all' (never anything)"));
}

}  // namespace
}  // namespace baton
