// Attention of `baton bench kernels`: prefill of the last 512 tokens of a past, and decode of the
// next token, over caches of each type.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "bench/kernel_suite.h"
#include "bench/kernel_timing.h"
#include "bench/random_weights.h"
#include "kernels/attention_decode.h"
#include "kernels/attention_prefill.h"
#include "tensor/aligned_buffer.h"

namespace baton {
namespace {

// Sequences of equal length with a cache of their own, and queries for their last rows.
class AttentionSubject {
 public:
  struct Shape {
    AttentionShape heads;
    KvType kv_type = KvType::kF16;
    int64_t num_sequences = 1;
    int64_t num_rows = 1;  // of each sequence
    int64_t num_keys = 1;
    bool is_decode = false;
    int max_threads = 1;
  };

  static Result<AttentionSubject> Make(const Shape& shape) {
    AttentionSubject subject(shape);
    const size_t block_bytes =
        subject.Record().Bytes() * static_cast<size_t>(shape.heads.num_kv_heads);
    const size_t blocks_each =
        static_cast<size_t>((shape.num_keys + kBlockTokens - 1) / kBlockTokens);
    const size_t num_blocks = blocks_each * static_cast<size_t>(shape.num_sequences);
    Result<AlignedBytes> memory = AlignedBytes::Allocate(num_blocks * block_bytes);
    if (!memory) return Forward(memory);
    subject.memory_ = *std::move(memory);
    subject.FillBlocks(block_bytes);
    for (size_t i = 0; i < num_blocks; ++i) {
      subject.blocks_.push_back(subject.memory_.data() + i * block_bytes);
    }
    for (int64_t s = 0; s < shape.num_sequences; ++s) {
      subject.sequences_.push_back(
          {.first_row = s * shape.num_rows,
           .num_rows = shape.num_rows,
           .first_position = shape.num_keys - shape.num_rows,
           .blocks = subject.blocks_.data() + static_cast<size_t>(s) * blocks_each});
    }
    if (Result<> made = subject.MakeRows(); !made) return Forward(made);
    return subject;
  }

  const Shape& shape() const { return shape_; }
  std::span<const std::byte> memory() const { return {memory_.data(), memory_.size()}; }

  void Run(const KernelContext& context) const {
    const AttentionArgs args = {.q = {q_.data(), num_rows(), cols()},
                                .out = {out_.data(), num_rows(), cols()},
                                .sequences = sequences_,
                                .shape = shape_.heads,
                                .layer = Layer(0),
                                .workspace = {workspace_.data(), workspace_.size()}};
    shape_.is_decode ? DecodeAttention(context, args) : PrefillAttention(context, args);
  }

  // Whether the first and the last row have the bits of the portable kernel in the other phase, in
  // the last group of heads.
  bool IsRight(const KernelContext& context, const KernelContext& portable) const {
    std::fill(out_.begin(), out_.end(), -1.0f);
    Run(context);
    const AttentionShape one = {.num_heads = shape_.heads.GroupSize(),
                                .num_kv_heads = 1,
                                .head_dim = shape_.heads.head_dim};
    const int64_t width = int64_t{one.num_heads} * one.head_dim;
    std::vector<float> want(static_cast<size_t>(width));
    for (const int64_t row : {int64_t{0}, num_rows() - 1}) {
      const AttentionSequence& of = sequences_[static_cast<size_t>(row / shape_.num_rows)];
      const AttentionSequence alone = {.first_row = 0,
                                       .num_rows = 1,
                                       .first_position = of.first_position + row - of.first_row,
                                       .blocks = of.blocks};
      const size_t needed = std::max(PrefillAttentionWorkspaceBytes(one, 1),
                                     DecodeAttentionWorkspaceBytes(one, {&alone, 1}, 1));
      Result<AlignedBytes> workspace = AlignedBytes::Allocate(needed);
      if (!workspace) return false;
      const AttentionArgs args = {.q = {q_.data() + row * cols() + cols() - width, 1, width},
                                  .out = {want.data(), 1, width},
                                  .sequences = {&alone, 1},
                                  .shape = one,
                                  .layer = Layer(shape_.heads.num_kv_heads - 1),
                                  .workspace = {workspace->data(), workspace->size()}};
      shape_.is_decode ? PrefillAttention(portable, args) : DecodeAttention(portable, args);
      const float* got = out_.data() + row * cols() + cols() - width;
      if (std::memcmp(got, want.data(), want.size() * sizeof(float)) != 0) return false;
    }
    return true;
  }

  // Multiply-adds with visible keys and values only.
  double Macs() const {
    const double rows = static_cast<double>(shape_.num_rows);
    const double mean_keys = static_cast<double>(shape_.num_keys) - (rows - 1) / 2;
    return static_cast<double>(shape_.num_sequences) * rows * mean_keys * shape_.heads.num_heads *
           shape_.heads.head_dim * 2;
  }
  // Keys and values, without the statistics of the blocks.
  double KvBytes() const {
    return static_cast<double>(shape_.num_sequences * shape_.num_keys * shape_.heads.num_kv_heads) *
           (static_cast<double>(Record().StatisticsOffsetBytes()) / kBlockTokens);
  }

 private:
  explicit AttentionSubject(const Shape& shape) : shape_(shape) {}

  KvRecord Record() const { return {.head_dim = shape_.heads.head_dim, .type = shape_.kv_type}; }
  int64_t num_rows() const { return shape_.num_sequences * shape_.num_rows; }
  int64_t cols() const { return int64_t{shape_.heads.num_heads} * shape_.heads.head_dim; }

  AttentionLayer Layer(int first_kv_head) const {
    const size_t record_bytes = Record().Bytes();
    return {.scale = 1.0f / std::sqrt(static_cast<float>(shape_.heads.head_dim)),
            .record_offset = record_bytes * static_cast<size_t>(first_kv_head),
            .head_stride = record_bytes,
            .kv_type = shape_.kv_type};
  }

  // Some blocks of random numbers, again and again.
  void FillBlocks(size_t block_bytes) {
    constexpr size_t kDistinctBlocks = 37;
    const size_t distinct = std::min(memory_.size(), kDistinctBlocks * block_bytes);
    FillRecords(3, Record(), {memory_.data(), distinct});
    for (size_t done = distinct; done < memory_.size();) {
      const size_t size = std::min(done, memory_.size() - done);
      std::memcpy(memory_.data() + done, memory_.data(), size);
      done += size;
    }
  }

  Result<> MakeRows() {
    for (AlignedBuffer<float>* buffer : {&q_, &out_}) {
      Result<AlignedBuffer<float>> made =
          AlignedBuffer<float>::Allocate(static_cast<size_t>(num_rows() * cols()));
      if (!made) return Forward(made);
      *buffer = *std::move(made);
    }
    FillFloats(5, q_.span());
    const size_t needed =
        shape_.is_decode
            ? DecodeAttentionWorkspaceBytes(shape_.heads, sequences_, shape_.max_threads)
            : PrefillAttentionWorkspaceBytes(shape_.heads, shape_.max_threads);
    Result<AlignedBytes> workspace = AlignedBytes::Allocate(needed);
    if (!workspace) return Forward(workspace);
    workspace_ = *std::move(workspace);
    return {};
  }

  Shape shape_;
  AlignedBytes memory_;
  std::vector<const std::byte*> blocks_;
  std::vector<AttentionSequence> sequences_;
  AlignedBuffer<float> q_;
  AlignedBuffer<float> out_;
  AlignedBytes workspace_;
};

TimedWork WorkOf(const KernelSuiteContext& context, const KernelContext& kernels,
                 const AttentionSubject& subject) {
  const AttentionSubject::Shape& shape = subject.shape();
  TimedWork work = {.row = {},
                    .run = [&kernels, &subject] { subject.Run(kernels); },
                    .amount = shape.is_decode ? subject.KvBytes() : 2 * subject.Macs(),
                    .macs = subject.Macs(),
                    .bytes = shape.is_decode ? subject.KvBytes() : 0};
  work.row.operation = shape.is_decode ? "decode-attention" : "prefill-attention";
  work.row.type = KvTypeName(shape.kv_type);
  work.row.isa = kernels.table.isa;
  work.row.num_threads = kernels.pool.num_threads();
  work.row.shape = {{"sequences", shape.num_sequences},
                    {"rows", shape.num_rows},
                    {"keys", shape.num_keys},
                    {"heads", shape.heads.num_heads},
                    {"kv_heads", shape.heads.num_kv_heads},
                    {"head_dim", shape.heads.head_dim}};
  work.row.unit = shape.is_decode ? "GB/s" : "GFLOP/s";
  work.row.is_right = subject.IsRight(kernels, context.portable);
  return work;
}

KernelRow TimeSubject(const KernelSuiteContext& context, const KernelContext& kernels,
                      const AttentionSubject& subject) {
  TimingPlan plan = {.yardsticks = {}, .timing = context.timing(), .compare_time_with_first = {}};
  if (subject.shape().is_decode) {
    plan.yardsticks.push_back({"read", ReadLimitWork(kernels, {subject.memory()})});
  }
  plan.yardsticks.push_back({"fma", FloatLimitWork(kernels)});
  std::vector<TimedWork> works;
  works.push_back(WorkOf(context, kernels, subject));
  return TimeRows(std::move(works), plan).front();
}

Result<> BenchOne(const KernelSuiteContext& context, AttentionSubject::Shape shape) {
  shape.max_threads = std::max(2, context.kernels.pool.num_threads());
  context.progress(fmt::format("{} attention, {}, head size {}, {} keys",
                               shape.is_decode ? "decode" : "prefill", KvTypeName(shape.kv_type),
                               shape.heads.head_dim, shape.num_keys));
  Result<AttentionSubject> subject = AttentionSubject::Make(shape);
  if (!subject) return Forward(subject);
  context.report.rows.push_back(TimeSubject(context, context.kernels, *subject));
  // One case is enough to see whether threads share the work.
  const bool is_chosen = shape.heads.head_dim == 128 && (shape.is_decode || shape.num_keys == 4096);
  if (!is_chosen || !context.can_compare_threads()) return {};
  KernelRow row = TimeSubject(context, context.two, *subject);
  row.comparison = {.of = "speed of 1 thread",
                    .ratio = TimeRatio([&] { subject->Run(context.kernels); },
                                       [&] { subject->Run(context.two); }, context.timing())};
  context.report.rows.push_back(std::move(row));
  return {};
}

// As many sequences as it takes that no cache holds their keys and values.
int64_t SequencesBehindCaches(const KernelSuiteContext& context, const AttentionShape& heads,
                              KvType kv_type, int64_t num_keys) {
  const KvRecord record = {.head_dim = heads.head_dim, .type = kv_type};
  const int64_t bytes =
      num_keys / kBlockTokens * heads.num_kv_heads * static_cast<int64_t>(record.Bytes());
  return std::max<int64_t>(1, static_cast<int64_t>(context.BytesBehindCaches()) / bytes);
}

// Prefill of the last 512 tokens of a past.
Result<> BenchPrefill(const KernelSuiteContext& context, KvType kv_type) {
  const bool is_quick = context.options.is_quick;
  constexpr AttentionShape kHeads[] = {
      {3, 1, 64}, {4, 1, 128}, {4, 1, 256}, {4, 1, 80}, {4, 1, 96}};
  for (const AttentionShape& heads : kHeads) {
    for (const int64_t num_keys : {512, 4096, 16384}) {
      if (is_quick && num_keys > 512) continue;
      const int64_t num_rows = is_quick ? 20 : 512;
      Result<> done = BenchOne(context, {.heads = heads,
                                         .kv_type = kv_type,
                                         .num_rows = num_rows,
                                         .num_keys = is_quick ? 70 : num_keys});
      if (!done) return done;
    }
  }
  return {};
}

// Decode of a token, behind keys that lie in a cache and such as do not.
Result<> BenchDecode(const KernelSuiteContext& context, KvType kv_type) {
  const bool is_quick = context.options.is_quick;
  constexpr AttentionShape kHeads[] = {{9, 3, 64}, {32, 8, 64}, {32, 8, 128}, {4, 1, 256}};
  for (const AttentionShape& heads : kHeads) {
    for (const int64_t num_keys : {4096, 32768}) {
      if (is_quick && num_keys > 4096) continue;
      const bool is_long = num_keys > 4096;
      Result<> done = BenchOne(
          context,
          {.heads = heads,
           .kv_type = kv_type,
           .num_sequences = is_long ? SequencesBehindCaches(context, heads, kv_type, num_keys) : 1,
           .num_keys = is_quick ? 70 : num_keys,
           .is_decode = true});
      if (!done) return done;
    }
  }
  return {};
}

}  // namespace

Result<> BenchAttention(const KernelSuiteContext& context) {
  for (const KvType kv_type : context.options.kv_types) {
    if (context.options.has_prefill_attention) {
      if (Result<> done = BenchPrefill(context, kv_type); !done) return done;
    }
    if (!context.options.has_decode_attention) continue;
    if (Result<> done = BenchDecode(context, kv_type); !done) return done;
  }
  return {};
}

}  // namespace baton
