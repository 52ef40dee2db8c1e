// One token, one answer: the promise, tested by equality of bits.
//
// Every test compares the logits of every position with those of the same tokens computed alone, in
// one piece, by one thread. The models are both real ones and tiny random ones of both
// architectures.
#include <gtest/gtest.h>

#include <iostream>

#include "base/test_paths.h"
#include "format/gguf.h"
#include "forward/test_rig.h"
#include "model/test_tiny_model.h"

namespace baton {
namespace {

// More than the largest chunk, several blocks, no multiple of one.
constexpr int64_t kTinyTokens = 700;
constexpr int64_t kRealTokens = 530;
constexpr int64_t kFewTokens = 150;  // for the slow instruction sets
constexpr int64_t kRealLogitStride = 10;

struct ModelCase {
  const char* name;
  const char* file;  // in the cache; null for a tiny model
  const char* architecture;
  Precision precision;
  KvType kv_type = KvType::kF16;
};

void PrintTo(const ModelCase& model, std::ostream* out) {
  *out << model.name;
}

const Model* LoadCase(const ModelCase& model_case) {
  static std::map<std::string, std::unique_ptr<Model>> loaded;
  const std::string key = model_case.file != nullptr ? model_case.file : model_case.architecture;
  if (loaded.contains(key)) return loaded[key].get();
  const std::unique_ptr<ThreadPool> threads = *ThreadPool::Make(2);
  std::vector<std::byte> image;
  std::optional<GgufFile> file;
  if (model_case.file != nullptr) {
    const std::optional<std::string> path = CachedFile(model_case.file);
    if (!path) return nullptr;
    file.emplace(*GgufFile::Open(*path));
  } else {
    image = MakeTinyModel({.architecture = model_case.architecture,
                           .layers = 7,  // gemma3: the sixth is global
                           .sliding_window = 100});
    file.emplace(*GgufFile::Parse(image, "tiny"));
  }
  Result<Model> model = Model::Load(*file, *threads, nullptr);
  CHECK(model.has_value());
  loaded[key] = std::make_unique<Model>(*std::move(model));
  return loaded[key].get();
}

class Equality : public testing::TestWithParam<ModelCase> {
 protected:
  void SetUp() override {
    model_ = LoadCase(GetParam());
    if (model_ != nullptr) return;
    if (CachedFilesRequired()) FAIL() << GetParam().file << " is missing: run tools/fetch";
    GTEST_SKIP() << GetParam().file << " is missing: run tools/fetch";
  }

  bool IsReal() const { return GetParam().file != nullptr; }
  RigOptions Options() const {
    return {.precision = GetParam().precision,
            .kv_type = GetParam().kv_type,
            .logit_stride = IsReal() ? kRealLogitStride : 1};
  }
  int64_t NumTokens() const { return IsReal() ? kRealTokens : kTinyTokens; }
  std::vector<TokenId> Tokens(int64_t count) const {
    return RandomTokens(count, model_->spec().vocab_size, 42);
  }
  std::vector<uint64_t> Expected(int64_t count) const {
    return RunAlone(*model_, Options(), Tokens(count), count);
  }

  const Model* model_ = nullptr;
};

TEST_P(Equality, EveryChunkSize) {
  const std::vector<uint64_t> expected = Expected(NumTokens());
  for (int64_t chunk : {7, 16, 64, 100, 255, 256, 257, 512}) {
    EXPECT_EQ(RunAlone(*model_, Options(), Tokens(NumTokens()), chunk), expected)
        << "chunk " << chunk;
  }
}

TEST_P(Equality, TokenByTokenInEitherPhase) {
  const std::vector<uint64_t> expected = Expected(NumTokens());
  for (Phase phase : {Phase::kPrefill, Phase::kDecode}) {
    ForwardRig rig(*model_, Options());
    const size_t sequence = rig.Add(Tokens(NumTokens()));
    rig.Finish(sequence, 1, phase, LogitRows::kAll);
    EXPECT_EQ(rig.sequence(sequence).digests, expected) << PhaseName(phase);
  }
}

TEST_P(Equality, AloneOrAmongOthersInBothPhases) {
  const std::vector<uint64_t> expected = Expected(NumTokens());
  ForwardRig rig(*model_, Options());
  const std::vector<TokenId> tokens = Tokens(NumTokens());
  const size_t ours = rig.Add(tokens);
  std::vector<size_t> others;
  for (int64_t length : {1, 63, 200, 900}) {
    others.push_back(rig.Add(RandomTokens(length + 40, model_->spec().vocab_size, length)));
    rig.Step({{.sequence = others.back(), .count = length, .logits = LogitRows::kNone}}, nullptr);
  }
  // Prefill in uneven chunks, then decode; the others decode before and behind, and one more
  // prefills beside.
  const size_t late = rig.Add(RandomTokens(NumTokens(), model_->spec().vocab_size, 99));
  int64_t step = 0;
  while (rig.sequence(ours).computed() < NumTokens()) {
    const int64_t left = NumTokens() - rig.sequence(ours).computed();
    const bool decodes = left <= 5;
    std::vector<ForwardRig::Part> parts;
    for (size_t i = 0; i < others.size(); ++i) {
      if (i == 2) {
        parts.push_back({.sequence = ours,
                         .count = decodes ? 1 : std::min<int64_t>(left - 5, 61 + 13 * step),
                         .phase = decodes ? Phase::kDecode : Phase::kPrefill});
      }
      parts.push_back(
          {.sequence = others[i], .count = 1, .phase = Phase::kDecode, .logits = LogitRows::kLast});
    }
    if (rig.sequence(late).computed() + 30 < NumTokens()) {
      parts.push_back({.sequence = late, .count = 30, .logits = LogitRows::kNone});
    }
    rig.Step(parts, nullptr);
    ASSERT_FALSE(HasFatalFailure());
    ++step;
  }
  EXPECT_EQ(rig.sequence(ours).digests, expected);
}

TEST_P(Equality, AnyNumberOfThreads) {
  const std::vector<uint64_t> expected = Expected(NumTokens());
  for (int num_threads : {2, 3}) {
    RigOptions options = Options();
    options.num_threads = num_threads;
    EXPECT_EQ(RunAlone(*model_, options, Tokens(NumTokens()), 256), expected) << num_threads;
    ForwardRig rig(*model_, options);
    const size_t sequence = rig.Add(Tokens(kFewTokens));
    rig.Finish(sequence, 1, Phase::kDecode, LogitRows::kAll);
    EXPECT_TRUE(std::equal(rig.sequence(sequence).digests.begin(),
                           rig.sequence(sequence).digests.end(), expected.begin()));
  }
}

TEST_P(Equality, EveryInstructionSet) {
  const std::vector<uint64_t> expected = Expected(kFewTokens);
  for (Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512}) {
    if (std::ranges::find(RunnableIsas(), isa) == RunnableIsas().end()) {
      std::cout << "not run, this machine lacks it: " << IsaName(isa) << "\n";
      continue;
    }
    RigOptions options = Options();
    options.isa = isa;
    options.num_threads = 2;
    EXPECT_EQ(RunAlone(*model_, options, Tokens(kFewTokens), 64), expected) << IsaName(isa);
  }
}

TEST_P(Equality, AnyPhysicalBlocks) {
  const std::vector<uint64_t> expected = Expected(NumTokens());
  for (uint64_t shuffle : {3, 4}) {
    RigOptions options = Options();
    options.block_shuffle = shuffle;
    EXPECT_EQ(RunAlone(*model_, options, Tokens(NumTokens()), 512), expected) << shuffle;
  }
}

TEST_P(Equality, APrefixSharedByTwoSequences) {
  const std::vector<uint64_t> expected = Expected(NumTokens());
  // Shared whole blocks, and a shared block that is copied when the second sequence writes.
  for (int64_t shared : {128, 300}) {
    ForwardRig rig(*model_, Options());
    std::vector<TokenId> other = Tokens(shared);
    const std::vector<TokenId> rest = RandomTokens(200, model_->spec().vocab_size, 5);
    other.insert(other.end(), rest.begin(), rest.end());
    const size_t first = rig.Add(other);
    rig.Finish(first, 512, Phase::kPrefill, LogitRows::kNone);
    const size_t second = rig.Fork(first, shared, Tokens(NumTokens()));
    rig.Finish(second, 512, Phase::kPrefill, LogitRows::kAll);
    const std::vector<uint64_t>& digests = rig.sequence(second).digests;
    EXPECT_TRUE(std::equal(digests.begin() + shared, digests.end(), expected.begin() + shared))
        << shared;
  }
}

constexpr ModelCase kModels[] = {
    {"TinyLlama", nullptr, "llama", Precision::kFast},
    {"TinyGemma3", nullptr, "gemma3", Precision::kFast},
    {"SmolLM2", "smollm2-135m-instruct-q4_1.gguf", "llama", Precision::kFast},
    {"Gemma3", "gemma-3-270m-q4_k_m.gguf", "gemma3", Precision::kFast},
    {"SmolLM2Exact", "smollm2-135m-instruct-q4_1.gguf", "llama", Precision::kExact},
    {"Gemma3Exact", "gemma-3-270m-q4_k_m.gguf", "gemma3", Precision::kExact},
    {"TinyLlamaQ8", nullptr, "llama", Precision::kFast, KvType::kQ8},
    {"TinyGemma3Q8", nullptr, "gemma3", Precision::kFast, KvType::kQ8},
    {"SmolLM2Q8", "smollm2-135m-instruct-q4_1.gguf", "llama", Precision::kFast, KvType::kQ8},
    {"Gemma3Q8", "gemma-3-270m-q4_k_m.gguf", "gemma3", Precision::kFast, KvType::kQ8},
};

INSTANTIATE_TEST_SUITE_P(Models, Equality, testing::ValuesIn(kModels),
                         [](const testing::TestParamInfo<ModelCase>& param) {
                           return std::string(param.param.name);
                         });

}  // namespace
}  // namespace baton
