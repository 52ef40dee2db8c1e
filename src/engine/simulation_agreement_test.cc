// The simulator foretells what a model does: the same requests, once computed and once reckoned
// with the step times that were fitted on other requests of the same kind.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>

#include "base/clock.h"
#include "base/test_paths.h"
#include "engine/loaded_model.h"
#include "forward/step_forward.h"
#include "kernels/isa.h"
#include "simulate/simulation.h"

namespace baton {
namespace {

class AgreementTest : public testing::Test {
 protected:
  static constexpr int32_t kMaxRunning = 8;
  static constexpr int64_t kContext = 2048;
  static constexpr int64_t kChunk = 512;

  void Open(const std::string& path) {
    Result<LoadedModel> model = LoadModel({.path = path,
                                           .isa = BestIsa(),
                                           .num_threads = 2,
                                           .context_tokens = kContext,
                                           .chunk_tokens = kChunk,
                                           .max_running = kMaxRunning},
                                          nullptr);
    ASSERT_TRUE(model.has_value()) << model.error().message;
    model_.emplace(*std::move(model));
  }

  // About 16 requests.
  static Workload Load(uint64_t seed, double rate) {
    WorkloadOptions wanted;
    wanted.rate = rate;
    wanted.duration = 16 / rate;
    wanted.prompt_tokens = *LengthDistribution::Parse("lognormal:250,0.6");
    wanted.output_tokens = *LengthDistribution::Parse("20..60");
    wanted.seed = seed;
    return *GenerateWorkload(wanted);
  }
  static SimulationOptions Options() {
    SimulationOptions options;
    options.limits = {.max_running = kMaxRunning,
                      .max_context = kContext,
                      .max_prefill_rows = kChunk,
                      .max_queue_requests = 1000,
                      .max_queue_tokens = 1 << 20,
                      .long_prompt_tokens = 1024};
    options.kv_tokens = kMaxRunning * kContext;
    return options;
  }

  // Time stands still but for the steps, which the model computes.
  SimulationResult Compute(const Workload& workload) {
    Result<BlockLayout> layout = KvLayoutOf(model_->model->spec());
    Result<BlockPool> pool = BlockPool::Make(*layout, kMaxRunning * kContext / kBlockTokens);
    const KernelContext context{.table = KernelsFor(model_->options.isa), .pool = *model_->pool};
    Result<StepForward> forward = StepForward::Make(*model_->model, *pool, context,
                                                    {.max_sequences = kMaxRunning,
                                                     .max_rows = kChunk + kMaxRunning - 1,
                                                     .max_context = kContext,
                                                     .precision = model_->options.precision});
    EXPECT_TRUE(forward.has_value());
    SteadyClock clock;
    const std::atomic<bool> cancel = false;
    SimulationOptions options = Options();
    options.vocab_size = model_->model->spec().vocab_size;
    options.execute = [&](const StepPlan& plan) {
      const int64_t begin = clock.NowNs();
      const Result<> run =
          forward->Run(plan, [](std::span<const RowLogits>) {}, {.cancel = cancel});
      EXPECT_TRUE(run.has_value()) << (run ? "" : run.error().message);
      return static_cast<double>(clock.NowNs() - begin) * 1e-9;
    };
    Result<SimulationResult> result = SimulateIn(*pool, workload, options);
    EXPECT_TRUE(result.has_value());
    return *std::move(result);
  }

  std::optional<LoadedModel> model_;
};

// Not run by default: it is about time, and a busy machine has another one. Ask for it with
// --gtest_also_run_disabled_tests.
TEST_F(AgreementTest, DISABLED_SmolLM) {
  BATON_CACHED_FILE_OR_SKIP(path, "smollm2-135m-instruct-q4_1.gguf");
  ASSERT_NO_FATAL_FAILURE(Open(path));
  // Half of them at once, the others one after the other, so that steps of few rows are seen, too.
  Workload mixed = Load(1, 100);
  for (size_t i = mixed.size() / 2; i < mixed.size(); ++i) {
    mixed[i].seconds = 0;
    mixed[i].follows = static_cast<int64_t>(i) - 1;
  }
  const SimulationResult first = Compute(mixed);
  const StepTimeCoefficients times = first.fitted;
  // Six tenths of what this machine can do just now.
  const double rate = 0.6 * static_cast<double>(first.completed) / first.busy_seconds;
  const SimulationResult measured = Compute(Load(2, rate));
  SimulationOptions options = Options();
  options.times = times;
  options.known = MeasuredModel(times);
  const Result<SimulationResult> foretold = Simulate(Load(2, rate), options);
  ASSERT_TRUE(foretold.has_value()) << foretold.error().message;
  fmt::print("{:.2f} requests/s, step times {:.3g} {:.3g} {:.3g} {:.3g} {:.3g}\n", rate,
             times.per_step, times.per_prefill_token, times.per_prefill_context,
             times.per_decode_row, times.per_decode_context);
  const auto compare = [&](const char* name, double expected, double found) {
    fmt::print("{:<14} foretold {:.4f} s, measured {:.4f} s, ratio {:.2f}\n", name, expected, found,
               expected / found);
  };
  compare("TTFT p50", foretold->ttft.Quantile(0.5), measured.ttft.Quantile(0.5));
  compare("TTFT p90", foretold->ttft.Quantile(0.9), measured.ttft.Quantile(0.9));
  compare("gap p50", foretold->gap.Quantile(0.5), measured.gap.Quantile(0.5));
  compare("gap p90", foretold->gap.Quantile(0.9), measured.gap.Quantile(0.9));
  compare("total p50", foretold->total.Quantile(0.5), measured.total.Quantile(0.5));
  compare("busy", foretold->busy_seconds, measured.busy_seconds);
  // A machine that others use, too, may be half as fast a moment later.
  EXPECT_GT(foretold->busy_seconds, 0.5 * measured.busy_seconds);
  EXPECT_LT(foretold->busy_seconds, 2.0 * measured.busy_seconds);
  EXPECT_EQ(foretold->completed, measured.completed);
  EXPECT_EQ(foretold->output_tokens, measured.output_tokens);
}

}  // namespace
}  // namespace baton
