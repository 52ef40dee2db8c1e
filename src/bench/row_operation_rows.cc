// Operations on rows of `baton bench kernels`: norm, sum, activations, quantization, RoPE, and the
// writing of keys and values. They move numbers more than they compute; the yardstick is reading.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "bench/kernel_suite.h"
#include "bench/kernel_timing.h"
#include "bench/random_weights.h"
#include "kernels/kv_write.h"
#include "kernels/linear.h"
#include "kernels/quantize_rows.h"
#include "kernels/rope.h"
#include "kernels/row_ops.h"
#include "tensor/aligned_buffer.h"
#include "tensor/kv_record.h"

namespace baton {
namespace {

constexpr int kHeadDim = 64;

// The rows that the operations share: two inputs, a result, and what some need besides.
class RowSubject {
 public:
  struct Shape {
    int64_t num_rows = 0;
    int64_t width = 0;  // a multiple of 64
  };

  static Result<RowSubject> Make(const Shape& shape) {
    RowSubject subject(shape);
    const size_t size = static_cast<size_t>(shape.num_rows * shape.width);
    for (AlignedBuffer<float>* buffer : {&subject.a_, &subject.b_, &subject.out_}) {
      Result<AlignedBuffer<float>> made = AlignedBuffer<float>::Allocate(size);
      if (!made) return Forward(made);
      *buffer = *std::move(made);
      FillFloats(size + static_cast<size_t>(buffer - &subject.a_), buffer->span());
    }
    Result<RopeTable> rope = RopeTable::Make({.head_dim = kHeadDim, .rotary_dim = kHeadDim});
    if (!rope) return Forward(rope);
    subject.ropes_.push_back(*std::move(rope));
    Result<AlignedBuffer<float>> cos_sin = AlignedBuffer<float>::Allocate(
        static_cast<size_t>(shape.num_rows * subject.rope().RowFloats()));
    if (!cos_sin) return Forward(cos_sin);
    subject.cos_sin_ = *std::move(cos_sin);
    for (int64_t r = 0; r < shape.num_rows; ++r) {
      subject.rope().ComputeRow(r, subject.cos_sin_.data() + r * subject.rope().RowFloats());
    }
    Result<AlignedBytes> memory =
        AlignedBytes::Allocate(std::max(subject.KvBytes(), subject.InputBytes(Precision::kExact)));
    if (!memory) return Forward(memory);
    subject.memory_ = *std::move(memory);
    if (Result<> made = subject.MakeProbe(); !made) return Forward(made);
    for (size_t i = 0; i < subject.NumBlocks(); ++i) {
      subject.blocks_.push_back(subject.memory_.data() + i * subject.BlockBytes());
    }
    return subject;
  }

  const Shape& shape() const { return shape_; }
  size_t elements() const { return a_.size(); }
  View2<const float> a() const { return {a_.data(), shape_.num_rows, shape_.width}; }
  View2<const float> b() const { return {b_.data(), shape_.num_rows, shape_.width}; }
  View2<float> out() const { return {out_.data(), shape_.num_rows, shape_.width}; }
  View1<const float> weight() const { return {b_.data(), shape_.width}; }
  const RopeTable& rope() const { return ropes_.front(); }
  View2<const float> cos_sin() const {
    return {cos_sin_.data(), shape_.num_rows, rope().RowFloats()};
  }
  // Weights that read quantized rows.
  const WeightMatrix& probe() const { return probes_.front(); }
  std::span<std::byte> memory() const { return {memory_.data(), memory_.size()}; }

  RowInputsShape InputsShape(Precision precision) const {
    return {.num_rows = shape_.num_rows,
            .num_inputs = shape_.width,
            .precision = precision,
            .forms = InputForms::For(DType::kQ4_1)};
  }
  size_t InputBytes(Precision precision) const { return RowInputsBytes(InputsShape(precision)); }

  int num_kv_heads() const { return static_cast<int>(shape_.width / kHeadDim); }
  size_t BlockBytes() const {
    return KvRecord{kHeadDim}.Bytes() * static_cast<size_t>(num_kv_heads());
  }
  size_t KvBytes() const { return NumBlocks() * BlockBytes(); }
  void WriteBlocks(const KernelContext& context) const {
    const KvWriteSequence sequence = {
        .first_row = 0, .num_rows = shape_.num_rows, .first_position = 0, .blocks = blocks_.data()};
    WriteKv(context, {.k = a(),
                      .v = b(),
                      .target = {.sequences = {&sequence, 1},
                                 .num_kv_heads = num_kv_heads(),
                                 .head_dim = kHeadDim,
                                 .record_offset = 0,
                                 .head_stride = KvRecord{kHeadDim}.Bytes()}});
  }

  // Everything as before any operation.
  void Reset() const {
    std::memcpy(out_.data(), a_.data(), a_.size_bytes());
    std::memset(memory_.data(), 0, memory_.size());
  }
  std::vector<std::byte> Rows() const {
    const auto bytes = std::as_bytes(out_.span());
    return {bytes.begin(), bytes.end()};
  }
  std::vector<std::byte> RowsAndBlocks() const {
    std::vector<std::byte> results(out_.size_bytes() + memory_.size());
    std::memcpy(results.data(), out_.data(), out_.size_bytes());
    std::memcpy(results.data() + out_.size_bytes(), memory_.data(), memory_.size());
    return results;
  }

 private:
  explicit RowSubject(const Shape& shape) : shape_(shape) {}

  Result<> MakeProbe() {
    Result<std::unique_ptr<ThreadPool>> pool = ThreadPool::Make(1);
    if (!pool) return Forward(pool);
    const uint64_t row_bytes = *RowBytes(DType::kQ4_1, static_cast<uint64_t>(shape_.width));
    std::vector<std::byte> bytes(row_bytes * kPanelRows);
    FillWeights({.type = DType::kQ4_1, .num_inputs = shape_.width}, bytes);
    Result<WeightMatrix> probe = WeightMatrix::Pack({.type = DType::kQ4_1,
                                                     .bytes = bytes,
                                                     .num_outputs = kPanelRows,
                                                     .num_inputs = shape_.width},
                                                    **pool);
    if (!probe) return Forward(probe);
    probes_.push_back(*std::move(probe));
    return {};
  }
  size_t NumBlocks() const {
    return static_cast<size_t>((shape_.num_rows + kBlockTokens - 1) / kBlockTokens);
  }

  Shape shape_;
  AlignedBuffer<float> a_;
  AlignedBuffer<float> b_;
  AlignedBuffer<float> out_;
  std::vector<RopeTable> ropes_;      // one
  std::vector<WeightMatrix> probes_;  // one
  AlignedBuffer<float> cos_sin_;
  AlignedBytes memory_;  // of blocks, or of quantized rows
  std::vector<std::byte*> blocks_;
};

// An operation, and the bytes that it reads and writes at least.
struct RowOperation {
  std::string name;
  std::string precision;
  double bytes = 0;
  std::function<void(const KernelContext&)> run;
  // Of operations whose results only other kernels can read: those results, multiplied, in `out`.
  std::function<void(const KernelContext&)> probe = nullptr;
};

RowOperation Quantization(const RowSubject& s, Precision precision, const std::string& name) {
  const auto quantize = [&s, precision](const KernelContext& context) {
    return QuantizeRows(context, s.a(), s.InputsShape(precision), s.memory());
  };
  return {.name = "quantize",
          .precision = name,
          .bytes = static_cast<double>(4 * s.elements() + s.InputBytes(precision)),
          .run = [quantize](const KernelContext& context) { quantize(context); },
          .probe =
              [quantize, &s](const KernelContext& context) {
                Linear(context, s.probe(), quantize(context), s.out().Cols(0, kPanelRows));
              }};
}

RowOperation Gated(const RowSubject& s, Activation activation, const std::string& name) {
  return {.name = name,
          .precision = "",
          .bytes = static_cast<double>(12 * s.elements()),
          .run = [&s, activation](const KernelContext& context) {
            GatedActivation(context, {s.a(), s.b(), activation, s.out()});
          }};
}

std::vector<RowOperation> OperationsOn(const RowSubject& s) {
  const double numbers = static_cast<double>(s.elements());
  std::vector<RowOperation> operations;
  operations.push_back({.name = "rms-norm",
                        .precision = "",
                        .bytes = 8 * numbers,
                        .run = [&s](const KernelContext& context) {
                          RmsNorm(context, {s.a(), s.weight(), 1e-5f, s.out()});
                        }});
  operations.push_back({.name = "add",
                        .precision = "",
                        .bytes = 12 * numbers,
                        .run = [&s](const KernelContext& context) {
                          AddRows(context, {s.a(), s.b(), s.out()});
                        }});
  operations.push_back(Gated(s, Activation::kSilu, "gated-silu"));
  operations.push_back(Gated(s, Activation::kGeluTanh, "gated-gelu"));
  operations.push_back(Quantization(s, Precision::kFast, "fast"));
  operations.push_back(Quantization(s, Precision::kExact, "exact"));
  operations.push_back({.name = "rope",
                        .precision = "",
                        .bytes = 8 * numbers,
                        .run = [&s](const KernelContext& context) {
                          ApplyRope(context, {s.rope(), s.cos_sin(), s.out()});
                        }});
  operations.push_back({.name = "kv-write",
                        .precision = "",
                        .bytes = 12 * numbers,  // two f32 in, two binary16 out
                        .run = [&s](const KernelContext& context) { s.WriteBlocks(context); }});
  return operations;
}

bool IsRight(const KernelSuiteContext& context, const RowSubject& subject,
             const RowOperation& operation) {
  const auto results = [&](const KernelContext& kernels) {
    subject.Reset();
    operation.probe ? operation.probe(kernels) : operation.run(kernels);
    return operation.probe ? subject.Rows() : subject.RowsAndBlocks();
  };
  return results(context.portable) == results(context.kernels);
}

}  // namespace

Result<> BenchRowOperations(const KernelSuiteContext& context) {
  Result<RowSubject> subject = RowSubject::Make(
      context.options.is_quick ? RowSubject::Shape{5, 128} : RowSubject::Shape{512, 2048});
  if (!subject) return Forward(subject);
  const auto bytes_of = [](View2<const float> rows) {
    return std::as_bytes(std::span(rows.row(0), static_cast<size_t>(rows.rows() * rows.cols())));
  };
  for (const RowOperation& operation : OperationsOn(*subject)) {
    context.progress(operation.name);
    TimedWork work = {.row = {},
                      .run = [&] { operation.run(context.kernels); },
                      .amount = operation.bytes,
                      .macs = 0,
                      .bytes = operation.bytes};
    work.row.operation = operation.name;
    work.row.precision = operation.precision;
    work.row.isa = context.kernels.table.isa;
    work.row.num_threads = context.kernels.pool.num_threads();
    work.row.shape = {{"rows", subject->shape().num_rows}, {"width", subject->shape().width}};
    work.row.unit = "GB/s";
    work.row.is_right = IsRight(context, *subject, operation);
    std::vector<TimedWork> works;
    works.push_back(std::move(work));
    const TimingPlan plan = {
        .yardsticks = {{"read", ReadLimitWork(context.kernels,
                                              {bytes_of(subject->a()), bytes_of(subject->b())})}},
        .timing = context.timing(),
        .compare_time_with_first = {}};
    context.report.rows.push_back(TimeRows(std::move(works), plan).front());
  }
  return {};
}

}  // namespace baton
