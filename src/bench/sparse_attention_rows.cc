// Sparse prefill attention of `baton bench kernels`, beside dense attention of the same rows.
//
// The last rows of a prompt over their whole past, at the densities that were published for prompts
// of that length: the share of optional blocks is set so that as many are kept. What is kept does
// not depend on the numbers then, and the time hardly does.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "bench/kernel_suite.h"
#include "bench/kernel_timing.h"
#include "bench/random_weights.h"
#include "kernels/attention_prefill.h"
#include "kernels/attention_prefill_sparse.h"
#include "kernels/kv_write.h"
#include "tensor/aligned_buffer.h"

namespace baton {
namespace {

// Long runs are timed less often: a second more or less is all there is to see.
constexpr double kMaxSecondsPerLength = 10;

struct Length {
  int64_t num_keys;
  double density;  // as published for needle haystacks, the mean of three models
};
constexpr Length kLengths[] = {{4096, 0.728},  {8192, 0.496},  {16384, 0.31},
                               {32768, 0.175}, {65536, 0.092}, {131072, 0.048}};

// Time that the calling thread has computed, as if reading this clock took none: it takes half a
// microsecond, and a stage of a tile few. Threads: one.
class CpuClock final : public Clock {
 public:
  CpuClock() {
    constexpr int kReads = 200;
    double least = 1;
    for (int batch = 0; batch < 10; ++batch) {
      const double start = clock_.NowSeconds();
      for (int i = 0; i < kReads; ++i) (void)NowNs();
      least = std::min(least, (clock_.NowSeconds() - start) / kReads);
    }
    seconds_per_read_ = least;
  }
  int64_t NowNs() override {
    const double now = clock_.NowSeconds();
    return std::llround((now - static_cast<double>(num_reads_++) * seconds_per_read_) * 1e9);
  }

 private:
  ThreadCpuClock clock_;
  int64_t num_reads_ = 0;
  double seconds_per_read_ = 0;
};

// Multiply-adds with visible keys and values of kept blocks.
class MacCounter final : public TileObserver {
 public:
  MacCounter(const AttentionShape& shape, int block_tokens)
      : per_key_(2.0 * shape.GroupSize() * shape.head_dim), block_tokens_(block_tokens) {}

  void OnTile(const TileSelection& selection) override {
    int64_t keys = 0;
    for (const int32_t block : selection.kept) {
      const int64_t begin = int64_t{block} * block_tokens_;
      for (int64_t p = selection.rows.first_position; p <= selection.rows.last_position; ++p) {
        keys += std::clamp<int64_t>(p + 1 - begin, 0, block_tokens_);
      }
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    macs_ += per_key_ * static_cast<double>(keys);
  }
  double macs() const { return macs_; }

 private:
  const double per_key_;
  const int block_tokens_;
  std::mutex mutex_;
  double macs_ = 0;
};

struct SparseShape {
  AttentionShape heads;
  int64_t num_rows = 0;
  int64_t num_keys = 0;
  double density = 1;
  int max_threads = 1;
};

// One sequence's cache, and queries for its last rows.
class SparseSubject {
 public:
  static Result<SparseSubject> Make(const SparseShape& shape, const KernelContext& context) {
    SparseSubject subject(shape);
    if (Result<> made = subject.MakeBlocks(context); !made) return Forward(made);
    if (Result<> made = subject.MakeRows(); !made) return Forward(made);
    return subject;
  }

  // Keeps the shape's share of what is not kept anyway.
  SparsePolicy Policy(BlockEstimate estimate) const {
    const double blocks = static_cast<double>(shape_.num_keys) / kBlockTokens;
    return {.rule = SelectionRule::kShare,
            .share = std::clamp((shape_.density * blocks - 2) / (blocks - 2), 0.001, 1.0),
            .estimate = estimate,
            .sink_tokens = kBlockTokens,
            .window_tokens = kBlockTokens,
            .last_tiles = 0};
  }

  Result<> ReserveFor(const SparsePolicy& policy) {
    const size_t needed = std::max(
        SparsePrefillWorkspaceBytes(shape_.heads, policy, {&sequence_, 1}, shape_.max_threads),
        PrefillAttentionWorkspaceBytes(shape_.heads, shape_.max_threads));
    if (workspace_.size() >= needed) return {};
    Result<AlignedBytes> workspace = AlignedBytes::Allocate(needed);
    if (!workspace) return Forward(workspace);
    workspace_ = *std::move(workspace);
    return {};
  }

  // What a run may tell besides.
  struct Tales {
    std::span<BlockCounts> counts = {};
    TileObserver* observer = nullptr;
    Clock* clock = nullptr;
    SparseTimes* times = nullptr;
  };
  void RunSparse(const KernelContext& context, const SparsePolicy& policy,
                 const Tales& tales) const {
    SparsePrefillAttention(context, {.attention = Args(0),
                                     .policy = &policy,
                                     .layer = 0,
                                     .prompt_tokens = {&shape_.num_keys, 1},
                                     .counts = tales.counts,
                                     .observer = tales.observer,
                                     .clock = tales.clock,
                                     .times = tales.times});
  }
  void RunDense(const KernelContext& context) const { PrefillAttention(context, Args(0)); }

  // Whether the last tile has the bits of the portable kernel.
  bool IsRight(const KernelContext& context, const KernelContext& portable,
               const SparsePolicy& policy) const {
    const int64_t tile = TilePositions(policy, shape_.heads.GroupSize());
    const int64_t skipped =
        std::max<int64_t>(0, (shape_.num_keys - 1) / tile * tile - sequence_.first_position);
    const size_t at = static_cast<size_t>(skipped * cols());
    std::fill(out_.begin(), out_.end(), -1.0f);
    RunSparse(context, policy, {});
    const std::vector<float> got(out_.begin() + at, out_.end());
    std::fill(out_.begin(), out_.end(), -2.0f);
    AttentionSequence last = sequence_;
    last.first_row += skipped;
    last.num_rows -= skipped;
    last.first_position += skipped;
    AttentionArgs args = Args(0);
    args.sequences = {&last, 1};
    SparsePrefillAttention(
        portable,
        {.attention = args, .policy = &policy, .layer = 0, .prompt_tokens = {&shape_.num_keys, 1}});
    return std::memcmp(got.data(), out_.data() + at, got.size() * sizeof(float)) == 0;
  }

  double DenseMacs() const {
    const double rows = static_cast<double>(shape_.num_rows);
    return rows * (static_cast<double>(shape_.num_keys) - (rows - 1) / 2) * shape_.heads.num_heads *
           shape_.heads.head_dim * 2;
  }
  const SparseShape& shape() const { return shape_; }

 private:
  explicit SparseSubject(const SparseShape& shape) : shape_(shape) {}

  int64_t cols() const { return int64_t{shape_.heads.num_heads} * shape_.heads.head_dim; }

  AttentionArgs Args(int64_t first_row) const {
    CHECK_EQ(first_row, 0);
    return {.q = {q_.data(), shape_.num_rows, cols()},
            .out = {out_.data(), shape_.num_rows, cols()},
            .sequences = {&sequence_, 1},
            .shape = shape_.heads,
            .layer = {.scale = 1.0f / std::sqrt(static_cast<float>(shape_.heads.head_dim)),
                      .record_offset = 0,
                      .head_stride = KvRecord{shape_.heads.head_dim}.Bytes()},
            .workspace = {workspace_.data(), workspace_.size()}};
  }

  // Some blocks of random numbers, again and again, with the statistics that belong to them.
  Result<> MakeBlocks(const KernelContext& context) {
    constexpr int64_t kDistinctBlocks = 37;
    const AttentionShape& heads = shape_.heads;
    const size_t block_bytes =
        KvRecord{heads.head_dim}.Bytes() * static_cast<size_t>(heads.num_kv_heads);
    const int64_t num_blocks = (shape_.num_keys + kBlockTokens - 1) / kBlockTokens;
    Result<AlignedBytes> memory =
        AlignedBytes::Allocate(static_cast<size_t>(num_blocks) * block_bytes);
    if (!memory) return Forward(memory);
    memory_ = *std::move(memory);
    std::vector<std::byte*> places;
    for (int64_t i = 0; i < num_blocks; ++i) {
      places.push_back(memory_.data() + static_cast<size_t>(i) * block_bytes);
    }
    blocks_.assign(places.begin(), places.end());
    const int64_t tokens = std::min(num_blocks, kDistinctBlocks) * kBlockTokens;
    const int64_t width = int64_t{heads.num_kv_heads} * heads.head_dim;
    std::vector<float> k(static_cast<size_t>(tokens * width));
    std::vector<float> v(k.size());
    FillFloats(3, k);
    FillFloats(4, v);
    const KvWriteSequence written = {.num_rows = tokens, .blocks = places.data()};
    WriteKv(context, {.k = {k.data(), tokens, width},
                      .v = {v.data(), tokens, width},
                      .target = {.sequences = {&written, 1},
                                 .num_kv_heads = heads.num_kv_heads,
                                 .head_dim = heads.head_dim,
                                 .head_stride = KvRecord{heads.head_dim}.Bytes()}});
    for (int64_t i = kDistinctBlocks; i < num_blocks; ++i) {
      std::memcpy(places[static_cast<size_t>(i)], places[static_cast<size_t>(i % kDistinctBlocks)],
                  block_bytes);
    }
    return {};
  }

  Result<> MakeRows() {
    for (AlignedBuffer<float>* buffer : {&q_, &out_}) {
      Result<AlignedBuffer<float>> made =
          AlignedBuffer<float>::Allocate(static_cast<size_t>(shape_.num_rows * cols()));
      if (!made) return Forward(made);
      *buffer = *std::move(made);
    }
    FillFloats(5, q_.span());
    sequence_ = {.num_rows = shape_.num_rows,
                 .first_position = shape_.num_keys - shape_.num_rows,
                 .blocks = blocks_.data()};
    return {};
  }

  SparseShape shape_;
  AlignedBytes memory_;
  std::vector<const std::byte*> blocks_;
  AttentionSequence sequence_;
  AlignedBuffer<float> q_;
  AlignedBuffer<float> out_;
  AlignedBytes workspace_;
};

struct Variant {
  const char* name;
  SparsePolicy policy;
  double density = 1;
  double macs = 0;
};

Variant MakeVariant(const KernelContext& kernels, SparseSubject& subject, BlockEstimate estimate) {
  Variant variant = {.name = estimate == BlockEstimate::kFar ? "far 4" : "mean",
                     .policy = subject.Policy(estimate)};
  MacCounter counter(subject.shape().heads, variant.policy.block_tokens);
  std::vector<BlockCounts> counts(static_cast<size_t>(subject.shape().heads.num_kv_heads));
  subject.RunSparse(kernels, variant.policy, {.counts = counts, .observer = &counter});
  variant.density = static_cast<double>(counts[0].kept) / static_cast<double>(counts[0].candidates);
  variant.macs = counter.macs();
  return variant;
}

KernelRow RowOf(const KernelContext& kernels, const SparseSubject& subject, const char* type,
                double density) {
  const SparseShape& shape = subject.shape();
  KernelRow row;
  row.operation = "sparse-prefill-attention";
  row.type = type;
  row.isa = kernels.table.isa;
  row.num_threads = kernels.pool.num_threads();
  row.shape = {{"rows", shape.num_rows},
               {"keys", shape.num_keys},
               {"heads", shape.heads.num_heads},
               {"head_dim", shape.heads.head_dim},
               {"kept_of_1000", std::llround(1000 * density)}};
  row.unit = "GFLOP/s";
  return row;
}

// Where the time of each run went. Units: nanoseconds of CPU time.
struct Stages {
  std::vector<double> dense;
  std::vector<std::vector<SparseTimes>> variants;
};

double Nanoseconds(int64_t time) {
  return static_cast<double>(std::max<int64_t>(1, time));
}

// Medians over the rounds, each compared with dense attention of the same round.
SparseCost CostOf(const SparseSubject& subject, const Variant& variant,
                  std::span<const double> dense, std::span<const SparseTimes> times) {
  const int per_block = variant.policy.estimate == BlockEstimate::kFar ? 4 : 1;
  const double model = per_block * (2 - variant.density) / (2.0 * variant.policy.block_tokens);
  const auto median = [&](const std::function<int64_t(const SparseTimes&)>& part) {
    std::vector<double> of_dense;
    for (size_t i = 0; i < times.size(); ++i) {
      of_dense.push_back(static_cast<double>(part(times[i])) / dense[i]);
    }
    return Summarize(of_dense).median;
  };
  SparseCost cost;
  const double attend = median([](const SparseTimes& t) { return std::max<int64_t>(1, t.attend); });
  cost.kept_rate = variant.macs / subject.DenseMacs() / attend;
  cost.overhead =
      median([](const SparseTimes& t) { return t.pack + t.score + t.select + t.correct; }) / model;
  cost.stages = {{"pack", median([](const SparseTimes& t) { return t.pack; }) / model},
                 {"score", median([](const SparseTimes& t) { return t.score; }) / model},
                 {"select", median([](const SparseTimes& t) { return t.select; }) / model},
                 {"correct", median([](const SparseTimes& t) { return t.correct; }) / model}};
  return cost;
}

// Dense attention and the variants, each noting the time of every run where one thread does it.
std::vector<TimedWork> WorksOf(const KernelSuiteContext& context, const SparseSubject& subject,
                               std::span<const Variant> variants, CpuClock& clock, Stages& stages) {
  const KernelContext& kernels = context.kernels;
  std::vector<TimedWork> works;
  works.push_back({.row = RowOf(kernels, subject, "dense", 1),
                   .run =
                       [&] {
                         const int64_t start = clock.NowNs();
                         subject.RunDense(kernels);
                         stages.dense.push_back(Nanoseconds(clock.NowNs() - start));
                       },
                   .amount = 2 * subject.DenseMacs(),
                   .macs = subject.DenseMacs()});
  stages.variants.resize(variants.size());
  Clock* own_clock = context.is_alone() ? &clock : nullptr;
  for (size_t i = 0; i < variants.size(); ++i) {
    const Variant& variant = variants[i];
    works.push_back({.row = RowOf(kernels, subject, variant.name, variant.density),
                     .run =
                         [&subject, &kernels, &variant, own_clock, &own = stages.variants[i]] {
                           SparseTimes times;
                           subject.RunSparse(kernels, variant.policy,
                                             {.clock = own_clock, .times = &times});
                           own.push_back(times);
                         },
                     .amount = 2 * variant.macs,
                     .macs = variant.macs});
    works.back().row.is_right = subject.IsRight(kernels, context.portable, variant.policy);
  }
  return works;
}

Result<> BenchShape(const KernelSuiteContext& context, SparseShape shape) {
  shape.max_threads = context.kernels.pool.num_threads();
  context.progress(fmt::format("sparse prefill attention, {} keys", shape.num_keys));
  Result<SparseSubject> subject = SparseSubject::Make(shape, context.kernels);
  if (!subject) return Forward(subject);
  for (const BlockEstimate estimate : {BlockEstimate::kFar, BlockEstimate::kMean}) {
    if (Result<> made = subject->ReserveFor(subject->Policy(estimate)); !made) return made;
  }
  const KernelContext& kernels = context.kernels;
  const std::vector<Variant> variants = {MakeVariant(kernels, *subject, BlockEstimate::kMean),
                                         MakeVariant(kernels, *subject, BlockEstimate::kFar)};
  CpuClock clock;
  Stages stages;
  // A run is long enough to be a sample, and then each round has one run of every work.
  TimingOptions timing = context.timing();
  timing.sample_seconds = 0;
  timing.max_seconds = std::min(timing.max_seconds, kMaxSecondsPerLength);
  TimingPlan plan = {
      .yardsticks = {}, .timing = timing, .compare_time_with_first = "speed of dense attention"};
  plan.yardsticks.push_back({"fma", FloatLimitWork(kernels)});
  std::vector<KernelRow> rows = TimeRows(WorksOf(context, *subject, variants, clock, stages), plan);
  const size_t num_rounds = static_cast<size_t>(rows[0].seconds.count);
  for (size_t i = 0; i < rows.size(); ++i) {
    KernelRow& row = rows[i];
    if (row.comparison) row.comparison->ratio = 1 / row.comparison->ratio;
    if (i > 0 && context.is_alone()) {
      // The runs before the first round were to warm up.
      row.sparse_cost =
          CostOf(*subject, variants[i - 1], std::span<const double>(stages.dense).last(num_rounds),
                 std::span<const SparseTimes>(stages.variants[i - 1]).last(num_rounds));
    }
    context.report.rows.push_back(std::move(row));
  }
  return {};
}

}  // namespace

std::vector<int64_t> SparseLengths() {
  std::vector<int64_t> lengths;
  for (const Length& length : kLengths) lengths.push_back(length.num_keys);
  return lengths;
}

Result<> BenchSparseAttention(const KernelSuiteContext& context) {
  const AttentionShape heads = {.num_heads = 4, .num_kv_heads = 1, .head_dim = 128};
  if (context.options.is_quick) {
    return BenchShape(context, {.heads = heads, .num_rows = 80, .num_keys = 400, .density = 0.5});
  }
  const std::vector<int64_t>& wanted = context.options.sparse_lengths;
  for (const Length& length : kLengths) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), length.num_keys) == wanted.end())
      continue;
    // The portable kernels are slow, and memory may be scarce.
    if (context.kernels.table.isa == Isa::kPortable && length.num_keys > 4096) continue;
    const uint64_t cache_bytes =
        static_cast<uint64_t>(length.num_keys / kBlockTokens) * KvRecord{heads.head_dim}.Bytes();
    if (cache_bytes > context.options.max_bytes) {
      context.report.notes.push_back(
          fmt::format("no sparse attention of {} keys: {} MiB are more than may be taken",
                      length.num_keys, cache_bytes >> 20));
      continue;
    }
    Result<> done = BenchShape(context, {.heads = heads,
                                         .num_rows = length.num_keys > 8192 ? 512 : 1024,
                                         .num_keys = length.num_keys,
                                         .density = length.density});
    if (!done) return done;
  }
  return {};
}

}  // namespace baton
