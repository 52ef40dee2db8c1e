#include "bench/model_suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/number_text.h"
#include "base/rng.h"
#include "bench/limit_work.h"
#include "bench/model_work.h"
#include "bench/random_weights.h"
#include "engine/available_memory.h"
#include "engine/memory_needs.h"
#include "format/gguf.h"
#include "forward/step_forward.h"
#include "kv/block_table.h"
#include "model/arch/architecture.h"
#include "model/packed_model.h"

namespace baton {
namespace {

int64_t Largest(const std::vector<int64_t>& numbers) {
  return numbers.empty() ? 0 : *std::max_element(numbers.begin(), numbers.end());
}

// Positions and sequences that the rows need at most.
struct Extent {
  int64_t max_context = 0;
  int64_t max_sequences = 1;
  int64_t num_blocks = 0;
};

Extent ExtentOf(const ModelSuiteOptions& options) {
  Extent extent;
  extent.max_context = std::max(Largest(options.prompts), Largest(options.depths) + 1);
  extent.max_sequences = std::max<int64_t>(1, Largest(options.batches));
  extent.num_blocks = NumBlocksFor(extent.max_context);
  if (!options.depths.empty()) {
    extent.num_blocks = std::max(extent.num_blocks,
                                 extent.max_sequences * NumBlocksFor(options.depths.front() + 1));
  }
  return extent;
}

StepForwardOptions StepOptionsOf(const ModelSuiteOptions& options) {
  const Extent extent = ExtentOf(options);
  return {.max_sequences = static_cast<int32_t>(extent.max_sequences),
          .max_rows = std::max(options.chunk_tokens, extent.max_sequences),
          .max_context = extent.max_context,
          .precision = options.precision};
}

std::string TypesOf(const GgufFile& file) {
  std::map<std::string_view, int> counts;
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.dims.size() > 1) ++counts[DTypeName(tensor.type)];
  }
  std::string text;
  for (const auto& [name, count] : counts) {
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", name, count);
  }
  return text;
}

// One number of threads: its pool, its buffers, and the works to time.
class ModelRig {
 public:
  static Result<std::unique_ptr<ModelRig>> Make(const Model& model,
                                                const ModelSuiteOptions& options, int num_threads) {
    auto rig = std::unique_ptr<ModelRig>(new ModelRig(model, options));
    Result<std::unique_ptr<ThreadPool>> threads = ThreadPool::Make(num_threads);
    if (!threads) return Forward(threads);
    rig->threads_ = *std::move(threads);
    const Result<BlockLayout> layout = KvLayoutOf(model.spec(), options.kv_type);
    if (!layout) return Forward(layout);
    Result<BlockPool> pool =
        BlockPool::Make(*layout, static_cast<int32_t>(ExtentOf(options).num_blocks));
    if (!pool) return Forward(pool);
    rig->pool_.emplace(*std::move(pool));
    Result<StepForward> forward =
        StepForward::Make(model, *rig->pool_, rig->context(), StepOptionsOf(options));
    if (!forward) return Forward(forward);
    rig->forward_.emplace(*std::move(forward));
    rig->forward_->SetRecorder(options.recorder);
    return rig;
  }

  Result<ModelRow> Prefill(int64_t prompt_tokens) {
    BlockTable table(*pool_, prompt_tokens);
    if (Result<> reserved = table.Reserve(prompt_tokens); !reserved) return Forward(reserved);
    std::vector<StepPlan> plans;
    ModelWork work;
    for (int64_t done = 0; done < prompt_tokens;) {
      const int64_t count = std::min(options_.chunk_tokens, prompt_tokens - done);
      const bool is_last = done + count == prompt_tokens;
      plans.push_back({.sequences = {Rows(0, table, done, count)}});
      plans.back().sequences[0].logits = is_last ? LogitRows::kLast : LogitRows::kNone;
      const WorkRows rows = {
          .first_position = done, .num_rows = count, .num_logit_rows = is_last ? 1 : 0};
      work = work + WorkOfStep(model_, policy(), {&rows, 1});
      done += count;
    }
    ModelRow row;
    row.phase = BenchPhase::kPrefill;
    row.prompt_tokens = prompt_tokens;
    return Time(std::move(row), {plans, work, WeightMemory(model_), prompt_tokens});
  }

  Result<ModelRow> Decode(int64_t depth, int64_t num_sequences) {
    std::vector<BlockTable> tables;
    std::vector<std::span<const std::byte>> memory = WeightMemory(model_);
    StepPlan plan;
    std::vector<WorkRows> rows;
    for (int64_t s = 0; s < num_sequences; ++s) {
      BlockTable& table = tables.emplace_back(*pool_, depth + 1);
      if (Result<> reserved = table.Reserve(depth + 1); !reserved) return Forward(reserved);
      for (const BlockId block : table.blocks()) {
        Fill(block);
        if (depth > 0) memory.emplace_back(pool_->Data(block), pool_->layout().block_bytes());
      }
      SequenceStep step = Rows(static_cast<int32_t>(s), table, depth, 1);
      step.phase = Phase::kDecode;
      step.logits = LogitRows::kLast;
      plan.sequences.push_back(std::move(step));
      rows.push_back({.first_position = depth, .num_rows = 1, .num_logit_rows = 1});
    }
    ModelRow row;
    row.phase = BenchPhase::kDecode;
    row.num_sequences = num_sequences;
    row.depth = depth;
    return Time(
        std::move(row),
        {{std::move(plan)}, WorkOfStep(model_, policy(), rows), std::move(memory), num_sequences});
  }

 private:
  WorkPolicy policy() const {
    return {.precision = options_.precision, .kv_type = options_.kv_type};
  }
  ModelRig(const Model& model, const ModelSuiteOptions& options)
      : model_(model), options_(options) {}

  KernelContext context() const { return {.table = KernelsFor(options_.isa), .pool = *threads_}; }

  // Random tokens of a sequence whose table is large enough.
  SequenceStep Rows(int32_t slot, const BlockTable& table, int64_t first, int64_t count) const {
    RandomStream random({.seed = static_cast<uint64_t>(first), .stream = 17});
    SequenceStep step;
    step.slot = slot;
    step.first_position = first;
    for (int64_t i = 0; i < count; ++i) {
      step.tokens.push_back(
          static_cast<TokenId>(random.NextBelow(static_cast<uint64_t>(model_.spec().vocab_size))));
    }
    step.blocks.assign(table.blocks().begin(), table.blocks().end());
    return step;
  }

  // Random keys and values, the same in all blocks.
  void Fill(BlockId block) {
    const size_t bytes = pool_->layout().block_bytes();
    if (pattern_.empty()) {
      pattern_.resize(bytes / sizeof(float));
      FillRecords(23, pool_->layout().record(), std::as_writable_bytes(std::span(pattern_)));
    }
    std::memcpy(pool_->Data(block), pattern_.data(), bytes);
  }

  struct Subject {
    std::vector<StepPlan> plans;
    ModelWork work;
    std::vector<std::span<const std::byte>> memory;
    int64_t num_tokens;
  };

  Result<ModelRow> Time(ModelRow row, const Subject& subject) {
    const KernelContext kernels = context();
    const LimitWork read = ReadLimitWork(kernels, subject.memory);
    const LimitWork integer = IntegerLimitWork(kernels);
    const LimitWork floats = FloatLimitWork(kernels);
    Result<> status;
    const auto run = [&] {
      const std::atomic<bool> cancel = false;
      for (const StepPlan& plan : subject.plans) {
        Result<> done = forward_->Run(plan, [](std::span<const RowLogits>) {}, {.cancel = cancel});
        if (!done && status) status = std::move(done);
      }
    };
    // Several threads or one: what counts for a model is the clock on the wall.
    WallClock clock;
    const std::vector<std::function<void()>> works = {read.run, integer.run, floats.run, run};
    const std::vector<Samples> samples =
        TimeInTurn(works, clock,
                   {.sample_seconds = options_.num_rounds > 1 ? 2e-3 : 0,
                    .min_seconds = 0,
                    .max_seconds = options_.max_row_seconds,
                    .min_rounds = options_.num_rounds,
                    .max_rounds = options_.num_rounds});
    if (!status) return Forward(status);
    Samples limit_seconds;
    int num_read_bound = 0;
    for (size_t i = 0; i < samples[3].size(); ++i) {
      const double reading = subject.work.bytes * samples[0][i] / read.amount;
      const double computing = subject.work.integer_macs * samples[1][i] / integer.amount +
                               subject.work.float_macs * samples[2][i] / floats.amount;
      limit_seconds.push_back(std::max(reading, computing));
      if (reading > computing) ++num_read_bound;
    }
    row.num_threads = threads_->num_threads();
    row.seconds = Summarize(samples[3]);
    const double tokens = static_cast<double>(subject.num_tokens);
    row.tokens_per_second = tokens / row.seconds.median;
    row.limit_tokens_per_second = tokens / Summarize(limit_seconds).median;
    row.share = MedianRatio(limit_seconds, samples[3]);
    row.bound_by =
        2 * num_read_bound > static_cast<int>(limit_seconds.size()) ? "reading" : "arithmetic";
    return row;
  }

  const Model& model_;
  const ModelSuiteOptions& options_;
  std::unique_ptr<ThreadPool> threads_;
  std::optional<BlockPool> pool_;
  std::optional<StepForward> forward_;
  std::vector<float> pattern_;  // a block
};

Result<> BenchThreads(const Model& model, const ModelSuiteOptions& options, int num_threads,
                      const BenchProgress& progress, ModelReport& report) {
  Result<std::unique_ptr<ModelRig>> rig = ModelRig::Make(model, options, num_threads);
  if (!rig) return Forward(rig);
  const auto keep = [&report](Result<ModelRow> row) -> Result<> {
    if (!row) return Forward(row);
    report.rows.push_back(*std::move(row));
    return {};
  };
  for (const int64_t prompt : options.prompts) {
    progress(fmt::format("{}, prefill of {}", CountOf(num_threads, "thread"), prompt));
    if (Result<> kept = keep((*rig)->Prefill(prompt)); !kept) return kept;
  }
  for (const int64_t depth : options.depths) {
    progress(fmt::format("{}, decode at depth {}", CountOf(num_threads, "thread"), depth));
    if (Result<> kept = keep((*rig)->Decode(depth, 1)); !kept) return kept;
  }
  for (const int64_t batch : options.batches) {
    // One sequence at the first depth is among the depths already.
    if (batch == 1 || options.depths.empty()) continue;
    progress(fmt::format("{}, {}", CountOf(num_threads, "thread"), CountOf(batch, "sequence")));
    if (Result<> kept = keep((*rig)->Decode(options.depths.front(), batch)); !kept) return kept;
  }
  return {};
}

Result<std::optional<PackedFile>> OpenPacked(const GgufFile& file,
                                             const ModelSuiteOptions& options) {
  if (!options.use_packed_file) return std::nullopt;
  Result<PackedFile> packed = PackedFile::Open(PackedPathOf(file), PackedFileOf(file));
  if (packed) return std::optional<PackedFile>(*std::move(packed));
  if (packed.error().code == ErrorCode::kNotFound) return std::nullopt;
  return Forward(packed);
}

// Whether weights, all caches and buffers fit what is free; and their sizes, for the report.
Result<> CheckNeeds(const GgufFile& file, const ModelSpec& spec, const ModelSuiteOptions& options,
                    ModelReport& report) {
  const Extent extent = ExtentOf(options);
  if (extent.num_blocks > BlockPool::kMaxBlocks) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("{} with {} tokens do not fit a cache, which has at most {} blocks of "
                            "64 tokens; take smaller --prompt, --depth or --batch",
                            CountOf(extent.max_sequences, "sequence"),
                            CountText(extent.max_context), CountText(BlockPool::kMaxBlocks)));
  }
  Result<MemoryNeeds> needs =
      EstimateMemory(file, spec,
                     {.kv_tokens = extent.max_context,
                      .kv_type = options.kv_type,
                      .step = StepOptionsOf(options),
                      .num_threads = static_cast<int>(Largest(options.threads))});
  if (!needs) return Forward(needs);
  needs->kv_bytes = needs->kv_block_bytes * static_cast<uint64_t>(extent.num_blocks);
  report.kv_bytes = needs->kv_bytes;
  report.workspace_bytes = needs->workspace_bytes;
  const uint64_t available = AvailableMemory({}).value_or(~uint64_t{0});
  if (needs->total() <= available) return {};
  return Fail(ErrorCode::kExhausted,
              fmt::format("weights {} MiB, the cache of {} {} MiB and workspace {} MiB do not "
                          "fit the {} MiB of memory that are free; take smaller --prompt, --depth "
                          "or --batch",
                          needs->weight_bytes >> 20, CountOf(extent.max_sequences, "sequence"),
                          needs->kv_bytes >> 20, needs->workspace_bytes >> 20, available >> 20));
}

}  // namespace

Result<ModelReport> BenchModel(const ModelSuiteOptions& options, const BenchProgress& progress,
                               const PackProgress& load_progress) {
  WallClock clock;
  const double start = clock.NowSeconds();
  Result<GgufFile> file = GgufFile::Open(options.path);
  if (!file) return Forward(file);
  Result<ModelSpec> spec = ReadModelSpec(*file);
  if (!spec) return Forward(spec);
  ModelReport report;
  report.machine = ReadMachine({});
  report.path = options.path;
  report.name = spec->name;
  report.architecture = spec->architecture;
  report.weight_types = TypesOf(*file);
  report.isa = options.isa;
  report.precision = options.precision;
  report.kv_type = options.kv_type;
  report.chunk_tokens = options.chunk_tokens;
  if (Result<> fits = CheckNeeds(*file, *spec, options, report); !fits) return Forward(fits);
  if (const int64_t most = ExtentOf(options).max_context; most > spec->trained_context) {
    report.notes.push_back(
        fmt::format("{} tokens are beyond the context of {} that the model was "
                    "trained for; the speed does not mind",
                    CountText(most), CountText(spec->trained_context)));
  }
  Result<std::unique_ptr<ThreadPool>> pool =
      ThreadPool::Make(static_cast<int>(Largest(options.threads)));
  if (!pool) return Forward(pool);
  Result<std::optional<PackedFile>> packed = OpenPacked(*file, options);
  if (!packed) return Forward(packed);
  report.is_packed = packed->has_value();
  Result<Model> model = Model::LoadBySpec({.file = *file,
                                           .spec = *spec,
                                           .pool = **pool,
                                           .progress = load_progress,
                                           .packed = *std::move(packed)});
  if (!model) return Forward(model);
  report.load_seconds = clock.NowSeconds() - start;
  report.weight_bytes = model->weight_bytes();
  pool->reset();
  for (const int64_t threads : options.threads) {
    Result<> done = BenchThreads(*model, options, static_cast<int>(threads), progress, report);
    if (!done) return Forward(done);
  }
  report.peak_resident_bytes = PeakResidentBytes({});
  return report;
}

}  // namespace baton
