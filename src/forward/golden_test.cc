// Truth: the engine against a binary64 forward pass of both real models (tests/data/golden).
//
// KL divergences are of the reference's 20 most probable tokens and of all others taken together,
// which is what the files hold; they bound the whole divergence from below.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/test_paths.h"
#include "format/gguf.h"
#include "forward/test_rig.h"

namespace baton {
namespace {

using nlohmann::json;

struct GoldenModel {
  const char* name;   // folder of the golden files
  double fast_kl;     // most that the mean may be under Precision::kFast
  double fast_q8_kl;  // likewise with KvType::kQ8
  double fast_flip;   // largest margin of a teacher-forced flip: that of the engine in use
};

constexpr GoldenModel kSmol = {"smollm2-135m-instruct-q4_1", 5.0e-3, 6.0e-3, 0.335};
constexpr GoldenModel kGemma = {"gemma-3-270m-q4_k_m", 5.0e-3, 6.0e-3, 1.4};
constexpr double kExactKl = 5e-6;
constexpr double kExactQ8Kl = 3e-3;
constexpr double kExactFlip = 0.02;

// What may change results.
struct Policy {
  Precision precision;
  KvType kv_type;
};
constexpr Policy kFast = {Precision::kFast, KvType::kF16};
constexpr Policy kExact = {Precision::kExact, KvType::kF16};

constexpr const char* kPrompts[] = {"short",        "prose",       "code",
                                    "chat",         "emoji",       "numbers",
                                    "multilingual", "passage-300", "passage-1100"};

json ReadGolden(const GoldenModel& golden, const std::string& name) {
  const std::string path =
      std::string(BATON_TEST_DATA) + "/golden/" + golden.name + "/" + name + ".json";
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  return json::parse(file);
}

// log of the sum of exp of all logits, in double.
double LogSumExp(std::span<const float> logits) {
  const double best = *std::ranges::max_element(logits);
  double sum = 0;
  for (float logit : logits) sum += std::exp(logit - best);
  return best + std::log(sum);
}

// See the file's comment. Requires: `position` is an entry of "positions".
double Divergence(const json& position, std::span<const float> logits) {
  const double log_sum = LogSumExp(logits);
  double divergence = 0;
  double rest_reference = 1;
  double rest_ours = 1;
  for (const json& top : position["top"]) {
    const double reference = top[2];
    const double ours = logits[top[0].get<size_t>()] - log_sum;
    divergence += std::exp(reference) * (reference - ours);
    rest_reference -= std::exp(reference);
    rest_ours -= std::exp(ours);
  }
  if (rest_reference > 1e-12 && rest_ours > 1e-12) {
    divergence += rest_reference * std::log(rest_reference / rest_ours);
  }
  return std::max(divergence, 0.0);
}

class Golden : public testing::TestWithParam<const GoldenModel*> {
 protected:
  void SetUp() override {
    BATON_CACHED_FILE_OR_SKIP(path, std::string(GetParam()->name) + ".gguf");
    static std::map<std::string, std::unique_ptr<Model>> loaded;
    if (!loaded.contains(path)) {
      const GgufFile file = *GgufFile::Open(path);
      const std::unique_ptr<ThreadPool> threads = *ThreadPool::Make(2);
      loaded[path] = std::make_unique<Model>(*Model::Load(file, *threads, nullptr));
    }
    model_ = loaded[path].get();
  }

  RigOptions Options(const Policy& policy) const {
    return {.num_threads = 2,
            .precision = policy.precision,
            .kv_type = policy.kv_type,
            .max_rows = 2048,
            .max_sequences = 1};
  }

  struct Accuracy {
    double mean_kl = 0;
    double max_kl = 0;
    int64_t positions = 0;
  };

  Accuracy Measure(const Policy& policy) const {
    Accuracy accuracy;
    for (const char* prompt : kPrompts) {
      const json golden = ReadGolden(*GetParam(), std::string("logits-") + prompt);
      std::map<int64_t, const json*> wanted;
      for (const json& position : golden["positions"]) wanted[position["pos"]] = &position;
      ForwardRig rig(*model_, Options(policy));
      const size_t sequence = rig.Add(golden["tokens"].get<std::vector<TokenId>>());
      const int64_t count = golden["n_tokens"];
      rig.Step({{.sequence = sequence, .count = count}},
               [&](size_t, int64_t position, std::span<const float> logits) {
                 if (!wanted.contains(position)) return;
                 const double divergence = Divergence(*wanted[position], logits);
                 accuracy.mean_kl += divergence;
                 accuracy.max_kl = std::max(accuracy.max_kl, divergence);
                 ++accuracy.positions;
               });
    }
    accuracy.mean_kl /= static_cast<double>(accuracy.positions);
    std::cout << GetParam()->name << (policy.precision == Precision::kFast ? " fast " : " exact ")
              << KvTypeName(policy.kv_type) << ": KL mean " << accuracy.mean_kl << ", max "
              << accuracy.max_kl << ", " << accuracy.positions << " positions\n";
    return accuracy;
  }

  // The largest margin of the reference at a step where our best token is another.
  double LargestFlip(const Policy& policy) const {
    double largest = 0;
    int64_t flips = 0;
    int64_t steps = 0;
    for (const char* prompt : kPrompts) {
      const json golden = ReadGolden(*GetParam(), std::string("logits-") + prompt);
      auto tokens = golden["tokens"].get<std::vector<TokenId>>();
      const auto greedy = golden["greedy"]["tokens"].get<std::vector<TokenId>>();
      const int64_t first = std::ssize(tokens) - 1;
      tokens.insert(tokens.end(), greedy.begin(), greedy.end() - 1);
      ForwardRig rig(*model_, Options(policy));
      const size_t sequence = rig.Add(tokens);
      rig.Step({{.sequence = sequence, .count = std::ssize(tokens)}},
               [&](size_t, int64_t position, std::span<const float> logits) {
                 if (position < first) return;
                 const auto step = static_cast<size_t>(position - first);
                 ++steps;
                 if (std::ranges::max_element(logits) - logits.begin() == greedy[step]) return;
                 ++flips;
                 largest = std::max(largest, golden["greedy"]["margins"][step].get<double>());
               });
    }
    std::cout << GetParam()->name << ": " << flips << " of " << steps
              << " teacher-forced choices differ, largest margin " << largest << "\n";
    return largest;
  }

  const Model* model_ = nullptr;
};

TEST_P(Golden, DivergenceUnderFast) {
  EXPECT_LE(Measure(kFast).mean_kl, GetParam()->fast_kl);
}

TEST_P(Golden, DivergenceUnderExact) {
  EXPECT_LE(Measure(kExact).mean_kl, kExactKl);
}

TEST_P(Golden, DivergenceWithCachesOf8Bits) {
  EXPECT_LE(Measure({Precision::kFast, KvType::kQ8}).mean_kl, GetParam()->fast_q8_kl);
  EXPECT_LE(Measure({Precision::kExact, KvType::kQ8}).mean_kl, kExactQ8Kl);
}

TEST_P(Golden, TeacherForcedChoicesUnderFast) {
  EXPECT_LE(LargestFlip(kFast), GetParam()->fast_flip);
}

TEST_P(Golden, TeacherForcedChoicesWithCachesOf8Bits) {
  EXPECT_LE(LargestFlip({Precision::kFast, KvType::kQ8}), GetParam()->fast_flip);
}

TEST_P(Golden, TeacherForcedChoicesUnderExact) {
  EXPECT_LE(LargestFlip(kExact), kExactFlip);
}

// Logits far down the vocabulary, which no divergence sees.
TEST_P(Golden, FixedLogitsUnderExact) {
  const json golden = ReadGolden(*GetParam(), "logits-prose");
  const auto ids = golden["fixed_ids"].get<std::vector<size_t>>();
  ForwardRig rig(*model_, Options(kExact));
  const size_t sequence = rig.Add(golden["tokens"].get<std::vector<TokenId>>());
  rig.Step({{.sequence = sequence, .count = golden["n_tokens"].get<int64_t>()}},
           [&](size_t, int64_t position, std::span<const float> logits) {
             const json& expected = golden["positions"][static_cast<size_t>(position)];
             ASSERT_EQ(expected["pos"], position);
             EXPECT_NEAR(LogSumExp(logits), expected["logsumexp"].get<double>(), 0.15);
             for (size_t i = 0; i < ids.size(); ++i) {
               // The tolerance of a path with a binary16 cache (golden README).
               EXPECT_NEAR(logits[ids[i]], expected["fixed_logits"][i].get<double>(), 0.15)
                   << "position " << position << ", id " << ids[i];
             }
           });
}

// Intermediate values, to name the layer where something goes wrong.
class TraceObserver : public StepObserver {
 public:
  explicit TraceObserver(const json& trace) {
    for (const json& value : trace["values"]) expected_[value["name"]] = &value;
  }
  void OnValues(std::string_view name, int layer, View2<const float> values) override {
    std::string full(name);
    if (layer >= 0) full = "blk." + std::to_string(layer) + "." + full;
    const auto found = expected_.find(full);
    if (found == expected_.end()) return;
    ++seen_;
    const json& expected = *found->second;
    const View1<const float> row = values.Row(values.rows() - 1);
    double square = 0;
    for (float value : row) square += double{value} * value;
    const double norm = expected["l2"];
    const double rms = norm / std::sqrt(static_cast<double>(row.size()));
    EXPECT_NEAR(std::sqrt(square), norm, 2e-3 * norm) << full;
    for (size_t i = 0; i < 8; ++i) {
      const auto at = static_cast<int64_t>(i);
      EXPECT_NEAR(row[at], expected["first"][i].get<double>(), 4e-3 * rms) << full;
      EXPECT_NEAR(row[row.size() - 8 + at], expected["last"][i].get<double>(), 4e-3 * rms) << full;
    }
  }
  size_t seen() const { return seen_; }
  size_t expected() const { return expected_.size(); }

 private:
  std::map<std::string, const json*> expected_;
  size_t seen_ = 0;
};

TEST_P(Golden, Trace) {
  const json trace = ReadGolden(*GetParam(), "trace");
  ForwardRig rig(*model_, Options(kExact));
  const size_t sequence = rig.Add(trace["tokens"].get<std::vector<TokenId>>());
  TraceObserver observer(trace);
  rig.forward().SetObserver(&observer);
  rig.Step({{.sequence = sequence,
             .count = std::ssize(rig.sequence(sequence).tokens),
             .logits = LogitRows::kLast}},
           nullptr);
  EXPECT_EQ(observer.seen(), observer.expected());
}

INSTANTIATE_TEST_SUITE_P(Models, Golden, testing::Values(&kSmol, &kGemma),
                         [](const testing::TestParamInfo<const GoldenModel*>& param) {
                           return param.param == &kSmol ? "SmolLM2" : "Gemma3";
                         });

}  // namespace
}  // namespace baton
