// Any model file, from its bytes to the logits of a step.
//
// The first byte chooses: an even one, the rest is the file; an odd one, the rest patches the
// header of a small valid model (two bytes where, one byte what), of either architecture. Broken
// if anything crashes, or if a file that was accepted cannot be computed with.
//
// Run: model_fuzz -max_total_time=60 -max_len=8192 CORPUS
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "engine/memory_needs.h"
#include "engine/test_tiny_vocabulary.h"
#include "engine/tokenizer_from_gguf.h"
#include "forward/step_forward.h"
#include "kernels/isa.h"
#include "kernels/rope.h"
#include "kv/block_table.h"
#include "model/arch/architecture.h"
#include "model/model.h"
#include "model/test_tiny_model.h"

namespace {

using baton::GgufFile;

constexpr int kVocabulary = 262;
constexpr uint64_t kMaxMemory = uint64_t{256} << 20;

std::vector<std::byte> SmallModel(const char* architecture) {
  baton::TinyModel tiny{.architecture = architecture,
                        .layers = 1,
                        .hidden = 32,
                        .feed_forward = 32,
                        .heads = 2,
                        .kv_heads = 1,
                        .vocabulary = kVocabulary,
                        .sliding_window = 8};
  tiny.edit = [&](baton::GgufWriter& writer) {
    const std::string rope = std::string(architecture) + ".rope.";
    writer.SetFloat32(rope + "freq_base", 10000.0f);
    writer.SetString(rope + "scaling.type", "linear");
    writer.SetFloat32(rope + "scaling.factor", 2.0f);
    baton::SetTinyVocabulary(kVocabulary, writer);
  };
  return baton::MakeTinyModel(tiny);
}

// The bytes before the first tensor.
size_t HeaderBytes(const std::vector<std::byte>& image) {
  const GgufFile file = *GgufFile::Parse(image, "seed");
  return static_cast<size_t>(file.tensors().front().data - image.data());
}

std::vector<std::byte> Patched(std::vector<std::byte> image, std::span<const uint8_t> patches) {
  const size_t header = HeaderBytes(image);
  for (size_t i = 0; i + 2 < patches.size(); i += 3) {
    const size_t at = (size_t{patches[i]} << 8 | patches[i + 1]) % header;
    image[at] = std::byte{patches[i + 2]};
  }
  return image;
}

// A step of two tokens of a model that was accepted.
void RunStep(const baton::Model& model, baton::KvType kv_type, baton::ThreadPool& threads) {
  const baton::ModelSpec& spec = model.spec();
  auto pool = baton::BlockPool::Make(*baton::KvLayoutOf(spec, kv_type), 1);
  if (!pool) return;
  auto forward = baton::StepForward::Make(
      model, *pool, {.table = baton::KernelsFor(baton::BestIsa()), .pool = threads},
      {.max_sequences = 1, .max_rows = 2, .max_context = 64});
  if (!forward) return;
  baton::BlockTable table(*pool, 64);
  CHECK(table.Reserve(2).has_value());
  baton::StepPlan plan;
  baton::SequenceStep& step = plan.sequences.emplace_back();
  step.tokens = {0, static_cast<baton::TokenId>(spec.vocab_size - 1)};
  step.blocks.assign(table.blocks().begin(), table.blocks().end());
  step.logits = baton::LogitRows::kLast;
  const std::atomic<bool> cancel = false;
  int num_rows = 0;
  const auto run = forward->Run(
      plan,
      [&](std::span<const baton::RowLogits> rows) { num_rows += static_cast<int>(rows.size()); },
      {.cancel = cancel});
  CHECK(run.has_value());
  CHECK_EQ(num_rows, 1);
}

void TryModel(const GgufFile& file, baton::ThreadPool& threads) {
  const auto spec = baton::ReadModelSpec(file);
  if (!spec) return;
  for (const baton::RopeSpec& rope : spec->ropes) {
    baton::RopeParams params = rope.params;
    params.frequency_factors = rope.frequency_factors;
    (void)baton::RopeTable::Make(params);
  }
  const std::vector<baton::WeightUse> plan = baton::PlanWeights(*spec);
  const bool is_blocked = !baton::FindObstacles(file, plan).empty();
  (void)baton::UnusedTensors(file, plan);
  const auto needs =
      baton::EstimateMemory(file, *spec, baton::QuestionOf(baton::LoadOptions(), 64));
  if (!needs || needs->total() > kMaxMemory) return;
  const auto model = baton::Model::Load(file, threads, nullptr);
  CHECK(!is_blocked || !model);
  if (!model) return;
  RunStep(*model, baton::KvType::kF16, threads);
  RunStep(*model, baton::KvType::kQ8, threads);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<std::byte> llama = SmallModel("llama");
  static const std::vector<std::byte> gemma3 = SmallModel("gemma3");
  static const std::unique_ptr<baton::ThreadPool> threads = *baton::ThreadPool::Make(1);
  if (size == 0) return 0;
  const std::span<const uint8_t> rest(data + 1, size - 1);
  std::vector<std::byte> image;
  if (data[0] % 2 == 0) {
    const auto bytes = std::as_bytes(rest);
    image.assign(bytes.begin(), bytes.end());
  } else {
    image = Patched(data[0] % 4 == 1 ? llama : gemma3, rest);
  }
  const auto file = GgufFile::Parse(image, "fuzz");
  if (!file) return 0;
  TryModel(*file, *threads);
  (void)baton::VocabularyFromGguf(*file);
  (void)baton::TokenizerFromGguf(*file);
  return 0;
}
