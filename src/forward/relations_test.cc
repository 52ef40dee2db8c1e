// Relations that no reference can fake: what must change an answer, what must not, by bits.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "format/gguf.h"
#include "forward/test_rig.h"
#include "model/test_tiny_model.h"

namespace baton {
namespace {

Model LoadTiny(const TinyModel& tiny) {
  const std::unique_ptr<ThreadPool> threads = *ThreadPool::Make(1);
  const std::vector<std::byte> image = MakeTinyModel(tiny);
  Result<Model> model = Model::Load(*GgufFile::Parse(image, "tiny"), *threads, nullptr);
  CHECK(model.has_value());
  return *std::move(model);
}

// P-03: eight copies in one step, also with the slots in reversed order and among others.
TEST(Relations, EightCopiesInOneStepAreEqual) {
  for (const char* architecture : {"llama", "gemma3"}) {
    const Model model = LoadTiny({.architecture = architecture, .layers = 7, .sliding_window = 20});
    const std::vector<TokenId> tokens = RandomTokens(90, model.spec().vocab_size, 1);
    const std::vector<uint64_t> expected = RunAlone(model, {}, tokens, 90);
    for (const bool is_reversed : {false, true}) {
      ForwardRig rig(model, {});
      std::vector<ForwardRig::Part> prefill;
      std::vector<ForwardRig::Part> decode;
      for (int i = 0; i < 8; ++i) {
        const size_t sequence = rig.Add(tokens);
        prefill.push_back({.sequence = sequence, .count = 80});
        decode.push_back({.sequence = sequence, .count = 1, .phase = Phase::kDecode});
      }
      if (is_reversed) {
        std::ranges::reverse(prefill);
        std::ranges::reverse(decode);
      }
      rig.Step(prefill, nullptr);
      for (int i = 0; i < 10; ++i) rig.Step(decode, nullptr);
      for (size_t i = 0; i < 8; ++i) {
        EXPECT_EQ(rig.sequence(i).digests, expected) << architecture << " copy " << i;
      }
    }
  }
}

// P-03: lengths 1 to 900 beside ours, and places in the step that change from step to step.
TEST(Relations, PlacesInTheStepChangeNothing) {
  const Model model = LoadTiny({.layers = 2});
  const std::vector<TokenId> tokens = RandomTokens(40, model.spec().vocab_size, 1);
  const std::vector<uint64_t> expected = RunAlone(model, {}, tokens, 40);
  ForwardRig rig(model, {.max_rows = 2048});
  const size_t ours = rig.Add(tokens);
  std::vector<ForwardRig::Part> parts = {{.sequence = ours, .count = 30}};
  for (const int64_t length : {1, 2, 63, 64, 65, 300, 900}) {
    const size_t other = rig.Add(RandomTokens(length + 10, model.spec().vocab_size, length));
    parts.push_back({.sequence = other, .count = length, .logits = LogitRows::kLast});
  }
  rig.Step(parts, nullptr);
  for (ForwardRig::Part& part : parts) part.count = 1;
  for (int i = 0; i < 10; ++i) {
    std::rotate(parts.begin(), parts.begin() + 3, parts.end());
    for (size_t p = 0; p < parts.size(); ++p) {
      parts[p].phase = (p + static_cast<size_t>(i)) % 2 == 0 ? Phase::kDecode : Phase::kPrefill;
    }
    rig.Step(parts, nullptr);
  }
  EXPECT_EQ(rig.sequence(ours).digests, expected);
}

// P-04. How the tokens are computed: in one piece, in chunks, or one by one.
enum class Way { kWhole, kChunked, kDecode };

uint64_t DigestAt(const Model& model, const std::vector<TokenId>& tokens, Way way) {
  ForwardRig rig(model, {});
  const size_t sequence = rig.Add(tokens);
  const int64_t count = std::ssize(tokens);
  rig.Finish(sequence,
             way == Way::kWhole     ? count
             : way == Way::kChunked ? 7
                                    : 1,
             way == Way::kDecode ? Phase::kDecode : Phase::kPrefill, LogitRows::kAll);
  return rig.sequence(sequence).digests.back();
}

struct WindowCase {
  int window;
  int64_t position;
};

// A window of W keys with the present one: a row at i sees i-W+1 and not i-W. One layer, so that
// nothing reaches it by way of another row.
TEST(Relations, AWindowHoldsItsKeysAndNoMore) {
  const WindowCase cases[] = {
      {8, 20},     // within a block
      {8, 71},     // the oldest key seen, 64, is a block's first
      {8, 70},     // ... 63, the last of the block before
      {1, 20},     // itself only
      {64, 20},    // longer than all there is
      {64, 127},   // exactly one block
      {64, 128},   // a block but for one key
      {100, 300},  // over several
      {1, 64},     // itself only, a block's first
  };
  for (const WindowCase& test : cases) {
    const Model model =
        LoadTiny({.architecture = "gemma3", .layers = 1, .sliding_window = test.window});
    ASSERT_EQ(model.spec().layers[0].sliding_window, test.window);
    const std::vector<TokenId> tokens = RandomTokens(test.position + 1, model.spec().vocab_size, 3);
    const auto changed_at = [&](int64_t position) {
      std::vector<TokenId> changed = tokens;
      TokenId& token = changed[static_cast<size_t>(position)];
      token = (token + 1) % static_cast<TokenId>(model.spec().vocab_size);
      return changed;
    };
    const int64_t oldest = std::max<int64_t>(0, test.position - test.window + 1);
    const uint64_t expected = DigestAt(model, tokens, Way::kWhole);
    for (const Way way : {Way::kWhole, Way::kChunked, Way::kDecode}) {
      SCOPED_TRACE(testing::Message() << "window " << test.window << " at " << test.position
                                      << " way " << static_cast<int>(way));
      EXPECT_EQ(DigestAt(model, tokens, way), expected);
      EXPECT_NE(DigestAt(model, changed_at(oldest), way), expected);
      if (oldest == 0) continue;
      EXPECT_EQ(DigestAt(model, changed_at(oldest - 1), way), expected);
    }
  }
}

// The promise for every weight type: phases, chunks and instruction sets.
TEST(Relations, EveryWeightTypeKeepsThePromise) {
  for (const DTypeTraits& traits : AllDTypes()) {
    if (!IsSupported(traits.type)) continue;
    const Model model = LoadTiny({.architecture = "gemma3",
                                  .type = traits.type,
                                  .layers = 2,
                                  .hidden = 256,
                                  .feed_forward = 256,
                                  .head_dim = 64,
                                  .sliding_window = 30});
    const std::vector<TokenId> tokens = RandomTokens(70, model.spec().vocab_size, 4);
    for (const Precision precision : {Precision::kFast, Precision::kExact}) {
      const std::vector<uint64_t> expected = RunAlone(model, {.precision = precision}, tokens, 70);
      for (const Isa isa : RunnableIsas()) {
        for (const int64_t chunk : {1, 7, 33, 70}) {
          if (isa == Isa::kPortable && chunk != 33) continue;  // slow
          const RigOptions options{.isa = isa, .num_threads = 2, .precision = precision};
          EXPECT_EQ(RunAlone(model, options, tokens, chunk), expected)
              << traits.name << " " << IsaName(isa) << " chunk " << chunk;
        }
      }
    }
  }
}

// Raises the flag when a step has come to some layer.
class CancelAt : public StepProgress {
 public:
  CancelAt(std::atomic<bool>& flag, int layer) : flag_(flag), layer_(layer) {}
  void OnLayerDone(int layers_done, int) override {
    if (layers_done == layer_) flag_.store(true);
  }

 private:
  std::atomic<bool>& flag_;
  int layer_;
};

// The plan of a sequence's next tokens, all of them with logits.
StepPlan PlanNext(ForwardRig::Sequence& sequence, int64_t count) {
  EXPECT_TRUE(sequence.table.Reserve(count).has_value());
  StepPlan plan;
  SequenceStep& step = plan.sequences.emplace_back();
  step.first_position = sequence.computed();
  const auto first = sequence.tokens.begin() + sequence.computed();
  step.tokens.assign(first, first + count);
  step.blocks.assign(sequence.table.blocks().begin(), sequence.table.blocks().end());
  step.logits = LogitRows::kAll;
  return plan;
}

// A cancelled step counts for nothing: what was computed before it stays, and the same tokens
// computed again give the same bits.
TEST(Relations, ACancelledStepLeavesWhatWasBefore) {
  const Model model = LoadTiny({.architecture = "gemma3", .layers = 7, .sliding_window = 50});
  const std::vector<TokenId> tokens = RandomTokens(150, model.spec().vocab_size, 6);
  const std::vector<uint64_t> expected = RunAlone(model, {}, tokens, 150);
  for (const int layer : {0, 1, 4, 6}) {  // 0: before the first
    ForwardRig rig(model, {});
    const size_t sequence = rig.Add(tokens);
    rig.Step({{.sequence = sequence, .count = 100}}, nullptr);
    const StepPlan plan = PlanNext(rig.sequence(sequence), 40);
    std::atomic<bool> cancel = layer == 0;
    CancelAt progress(cancel, layer);
    bool has_logits = false;
    const Result<> run =
        rig.forward().Run(plan, [&](std::span<const RowLogits>) { has_logits = true; },
                          {.cancel = cancel, .progress = &progress});
    ASSERT_FALSE(run.has_value());
    EXPECT_EQ(run.error().code, ErrorCode::kCancelled);
    EXPECT_FALSE(has_logits);
    rig.Finish(sequence, 30, Phase::kPrefill, LogitRows::kAll);
    EXPECT_EQ(rig.sequence(sequence).digests, expected) << "layer " << layer;
  }
}

class CountLayers : public StepProgress {
 public:
  explicit CountLayers(std::atomic<int>& layers) : layers_(layers) {}
  void OnLayerDone(int layers_done, int) override { layers_.store(layers_done); }

 private:
  std::atomic<int>& layers_;
};

// As a user does it: the flag is raised by another thread, at any time, while several compute.
TEST(Relations, AStepCancelledByAnotherThreadLeavesWhatWasBefore) {
  const Model model = LoadTiny({.architecture = "gemma3", .layers = 7, .sliding_window = 50});
  const std::vector<TokenId> tokens = RandomTokens(150, model.spec().vocab_size, 6);
  const std::vector<uint64_t> expected = RunAlone(model, {}, tokens, 150);
  for (const int layer : {0, 1, 3, 6}) {
    ForwardRig rig(model, {.num_threads = 3});
    const size_t sequence = rig.Add(tokens);
    rig.Step({{.sequence = sequence, .count = 100}}, nullptr);
    const StepPlan plan = PlanNext(rig.sequence(sequence), 40);
    std::atomic<int> layers_done = 0;
    std::atomic<bool> cancel = false;
    CountLayers progress(layers_done);
    std::thread user([&] {
      while (layers_done.load() < layer) std::this_thread::yield();
      cancel.store(true);
    });
    const Result<> run = rig.forward().Run(plan, [](std::span<const RowLogits>) {},
                                           {.cancel = cancel, .progress = &progress});
    layers_done.store(layer);
    user.join();
    // The step may have ended before the flag was seen.
    if (!run) {
      EXPECT_EQ(run.error().code, ErrorCode::kCancelled);
    }
    rig.Step({{.sequence = sequence, .count = 40}}, nullptr);
    rig.Finish(sequence, 1, Phase::kDecode, LogitRows::kAll);
    EXPECT_EQ(rig.sequence(sequence).digests, expected) << "layer " << layer;
  }
}

// The rows of a tile of a sparse prefill choose together, so a step that has only some of them
// would give other bits: it is refused. The prompt's last tile may be short, what follows it may be
// cut.
TEST(Relations, AStepThatCutsASparseTileIsRefused) {
  const Model model = LoadTiny({.layers = 2});
  const SparsePolicy policy{.tile_positions = 32};
  const SparsePolicy* policies[] = {&policy};
  ForwardRig rig(model, {});
  ASSERT_TRUE(rig.forward().Admit(policy).has_value());
  const size_t sequence = rig.Add(RandomTokens(200, model.spec().vocab_size, 8));
  const std::atomic<bool> cancel = false;
  const auto run = [&](int64_t count) {
    StepPlan plan = PlanNext(rig.sequence(sequence), count);
    plan.sequences[0].prompt_tokens = 150;
    return rig.forward().Run(plan, [](std::span<const RowLogits>) {},
                             {.cancel = cancel, .policies = policies});
  };
  for (const int64_t count : {1, 31, 33, 149}) {
    const Result<> done = run(count);
    ASSERT_FALSE(done.has_value()) << count;
    EXPECT_EQ(done.error().code, ErrorCode::kInvalid);
    EXPECT_NE(done.error().message.find("cut a tile of 32"), std::string::npos);
  }
  for (const int64_t count : {32, 64, 150, 170}) {
    const Result<> done = run(count);
    EXPECT_TRUE(done.has_value()) << count << ": " << done.error().message;
  }
}

}  // namespace
}  // namespace baton
