#include "engine/memory_needs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "engine/test_tiny_file.h"
#include "kv/block_pool.h"
#include "model/arch/architecture.h"
#include "sample/sampler.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Opened {
  explicit Opened(const TinyModel& tiny)
      : image(MakeTinyModel(tiny)),
        file(*GgufFile::Parse(image, "tiny")),
        spec(*ReadModelSpec(file)) {}
  std::vector<std::byte> image;
  GgufFile file;
  ModelSpec spec;
};

MemoryNeeds NeedsOf(const Opened& opened, int64_t context, KvType kv_type = KvType::kF16) {
  LoadOptions options;
  options.kv_type = kv_type;
  const Result<MemoryNeeds> needs =
      EstimateMemory(opened.file, opened.spec, QuestionOf(options, context));
  EXPECT_TRUE(needs.has_value());
  return *needs;
}

TEST(MemoryNeeds, WeightsAreWhatTheLoaderAllocates) {
  const std::unique_ptr<ThreadPool> pool = *ThreadPool::Make(1);
  for (const DType type : {DType::kF32, DType::kF16, DType::kQ4_1, DType::kQ8_0, DType::kQ6_K}) {
    for (const bool has_output : {false, true}) {
      const Opened opened({.type = type,
                           .hidden = 256,
                           .feed_forward = 256,
                           .head_dim = 64,
                           .vocabulary = 321,  // no whole number of panels
                           .has_output = has_output});
      const Result<Model> model = Model::Load(opened.file, *pool, nullptr);
      ASSERT_TRUE(model.has_value()) << model.error().message;
      EXPECT_EQ(NeedsOf(opened, 64).weight_bytes, model->weight_bytes()) << DTypeName(type);
    }
  }
}

TEST(MemoryNeeds, TheCacheIsWholeBlocks) {
  const Opened opened({});
  // Two layers of two KV heads of 16: K and V in binary16, their binary32 means, the far keys.
  const uint64_t record = 2 * 64 * 16 * 2 + 2 * 16 * 4 + 64;
  const MemoryNeeds needs = NeedsOf(opened, 65);
  EXPECT_EQ(needs.kv_block_bytes, 4 * record);
  EXPECT_EQ(needs.kv_bytes, 2 * 4 * record);
  EXPECT_EQ(NeedsOf(opened, 64).kv_bytes, 4 * record);
  EXPECT_EQ(needs.total(), needs.weight_bytes + needs.kv_bytes + needs.workspace_bytes);
}

TEST(MemoryNeeds, TheCacheIsOfItsType) {
  const Opened opened({});
  // K and V in bytes, a binary32 scale for a key's 16 components and one for a value.
  const uint64_t record = 2 * 64 * 16 + 2 * 64 * 4 + 2 * 16 * 4 + 64;
  const MemoryNeeds f16 = NeedsOf(opened, 65);
  const MemoryNeeds q8 = NeedsOf(opened, 65, KvType::kQ8);
  EXPECT_EQ(q8.kv_bytes, 2 * 4 * record);
  EXPECT_EQ(f16.q8_kv_bytes, q8.kv_bytes);
  EXPECT_EQ(q8.q8_kv_bytes, 0);
  EXPECT_EQ(q8.workspace_bytes, f16.workspace_bytes);  // or advice could be wrong
}

TEST(MemoryNeeds, TheWorkspaceIsThatOfTheStepAndTheSampler) {
  const Opened opened({});
  const MemoryQuestion question = QuestionOf(LoadOptions(), 300);
  EXPECT_EQ(question.step.max_rows, 300);  // no larger than the context
  EXPECT_EQ(question.step.max_context, 300);
  EXPECT_EQ(QuestionOf(LoadOptions(), 4096).step.max_rows, 512);
  const MemoryNeeds needs = *EstimateMemory(opened.file, opened.spec, question);
  EXPECT_EQ(needs.workspace_bytes, StepForward::BufferBytes(opened.spec, question.step, 1) +
                                       Sampler::BufferBytes(opened.spec.vocab_size));
  MemoryQuestion more = question;
  more.num_threads = 8;
  EXPECT_GT(EstimateMemory(opened.file, opened.spec, more)->workspace_bytes, needs.workspace_bytes);
}

// 1000 MiB of weights, 4 MiB a block, 100 MiB of workspace.
constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr MemoryNeeds kNeeds = {.weight_bytes = 1000 * kMiB,
                                .kv_bytes = 400 * kMiB,
                                .kv_tokens = 6400,
                                .kv_block_bytes = 4 * kMiB,
                                .workspace_bytes = 100 * kMiB};
constexpr int64_t kContext = 6400;

std::string RefusalOf(const MemoryNeeds& needs, uint64_t available_bytes) {
  const Result<> checked = CheckMemory(needs, available_bytes, kContext);
  EXPECT_FALSE(checked.has_value());
  return checked ? std::string() : checked.error().message;
}

TEST(CheckMemory, FitsToTheByte) {
  EXPECT_TRUE(CheckMemory(kNeeds, 1500 * kMiB, kContext).has_value());
  EXPECT_FALSE(CheckMemory(kNeeds, 1500 * kMiB - 1, kContext).has_value());
}

TEST(CheckMemory, NamesAllNumbersAndAContextThatFits) {
  EXPECT_EQ(CheckMemory(kNeeds, 0, kContext).error().code, ErrorCode::kExhausted);
  // 110 MiB are left for the cache: 27 blocks of 64 tokens.
  EXPECT_THAT(RefusalOf(kNeeds, 1210 * kMiB),
              AllOf(HasSubstr("1000.0 MiB"), HasSubstr("400.0 MiB"), HasSubstr("6,400 tokens"),
                    HasSubstr("100.0 MiB"), HasSubstr("1.5 GiB"), HasSubstr("1.2 GiB"),
                    HasSubstr("--ctx 1728 would fit"), Not(HasSubstr("--chunk"))));
  EXPECT_THAT(RefusalOf(kNeeds, 1104 * kMiB), HasSubstr("--ctx 64 would fit"));
}

TEST(CheckMemory, NamesTheChunkWhereTheWorkspaceIsTheProblem) {
  EXPECT_THAT(RefusalOf(kNeeds, 1450 * kMiB),
              AllOf(HasSubstr("--ctx 5568 would fit"), HasSubstr("a smaller --chunk")));
  MemoryNeeds needs = kNeeds;
  needs.workspace_bytes = 600 * kMiB;
  EXPECT_THAT(RefusalOf(needs, 1450 * kMiB),
              AllOf(HasSubstr("a smaller --chunk"), Not(HasSubstr("--ctx"))));
  EXPECT_THAT(RefusalOf(needs, 1300 * kMiB), HasSubstr("a smaller --chunk and a smaller --ctx"));
}

TEST(CheckMemory, NamesTheCacheOf8BitsWhereItFits) {
  MemoryNeeds needs = kNeeds;
  needs.q8_kv_bytes = 220 * kMiB;
  EXPECT_THAT(RefusalOf(needs, 1320 * kMiB),
              HasSubstr("; --ctx 3520 would fit, or take --kv-type q8, for less cache"));
  EXPECT_THAT(RefusalOf(needs, 1450 * kMiB),
              HasSubstr("for less workspace, or take --kv-type q8, for less cache"));
  EXPECT_THAT(RefusalOf(needs, 1320 * kMiB - 1), Not(HasSubstr("--kv-type")));
  EXPECT_THAT(RefusalOf(kNeeds, 1450 * kMiB), Not(HasSubstr("--kv-type")));
}

// The cache of many requests: a smaller context alone would not make it smaller.
TEST(CheckMemory, NamesTheCacheWhereItHasASizeOfItsOwn) {
  const auto refusal = [](uint64_t available_bytes, int64_t context) {
    return CheckMemory(kNeeds, available_bytes, context).error().message;
  };
  EXPECT_THAT(refusal(1210 * kMiB, 1000),
              AllOf(HasSubstr("400.0 MiB for 6,400 tokens, "),
                    HasSubstr("; --kv-tokens 1728 would fit"), Not(HasSubstr("--ctx"))));
  EXPECT_THAT(refusal(1210 * kMiB, 2000),
              HasSubstr("; --kv-tokens 1728 with --ctx 1728 would fit"));
}

TEST(CheckMemory, AdvisesASmallerModelWhereTheWeightsAreTooMuch) {
  for (const uint64_t available : {uint64_t{0}, 500 * kMiB, 1004 * kMiB}) {
    EXPECT_THAT(RefusalOf(kNeeds, available),
                AllOf(HasSubstr("take a smaller model"), Not(HasSubstr("--ctx")),
                      Not(HasSubstr("--chunk"))));
  }
}

}  // namespace
}  // namespace baton
