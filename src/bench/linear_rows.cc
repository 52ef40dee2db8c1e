// Linear layers of `baton bench kernels`: many rows, one to sixteen rows of a matrix that no cache
// holds, and two threads against one.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "base/check.h"
#include "bench/kernel_suite.h"
#include "bench/kernel_timing.h"
#include "bench/random_weights.h"
#include "kernels/linear.h"
#include "tensor/aligned_buffer.h"

namespace baton {
namespace {

constexpr int64_t kFewRows = 16;  // up to here reading the weights is what should bind
constexpr int64_t kLargeInputs = 4096;
constexpr int64_t kDistinctOutputs = 64;  // of a matrix; whole panels

std::string_view PrecisionName(Precision precision) {
  return precision == Precision::kFast ? "fast" : "exact";
}

// Requires: the type has kernels.
bool IsQuantizedType(DType type) {
  return IsQuantized(*PanelTypeOf(type));
}

// A matrix of random weights, rows to multiply it with, and the corners to verify with.
class LinearSubject {
 public:
  struct Shape {
    DType type = DType::kF32;
    int64_t num_outputs = 0;
    int64_t num_inputs = 0;
    int64_t max_rows = 0;
  };

  static Result<LinearSubject> Make(const Shape& shape) {
    LinearSubject subject(shape);
    if (Result<> made = subject.MakeWeights(); !made) return Forward(made);
    if (Result<> made = subject.MakeRows(); !made) return Forward(made);
    return subject;
  }

  const Shape& shape() const { return shape_; }
  const WeightMatrix& weights() const { return *weights_; }
  double MacsPerRow() const {
    return static_cast<double>(shape_.num_outputs) * static_cast<double>(shape_.num_inputs);
  }
  std::span<const std::byte> WeightBytes() const { return weights().panels(); }

  // The whole operation on the first num_rows rows.
  void Run(const KernelContext& context, Precision precision, int64_t num_rows) const {
    Multiply(context, weights(),
             {.rows = rows_.data(),
              .num_rows = num_rows,
              .precision = precision,
              .out = out_.data(),
              .stride = stride()});
  }

  // Whether the outputs in the corners have the bits of the portable kernel.
  bool IsRight(const KernelContext& context, const KernelContext& portable, Precision precision,
               int64_t num_rows) const {
    std::fill(out_.begin(), out_.end(), -1.0f);
    Run(context, precision, num_rows);
    std::vector<float> want(static_cast<size_t>(corner_outputs()));
    for (const int64_t row : {int64_t{0}, num_rows - 1}) {
      for (size_t corner = 0; corner < 2; ++corner) {
        Multiply(portable, corners_[corner],
                 {.rows = rows_.data() + row * shape_.num_inputs,
                  .num_rows = 1,
                  .precision = precision,
                  .out = want.data(),
                  .stride = corner_outputs()});
        const int64_t first = corner == 0 ? 0 : shape_.num_outputs - corner_outputs();
        const float* got = out_.data() + row * stride() + first;
        if (std::memcmp(got, want.data(), want.size() * sizeof(float)) != 0) return false;
      }
    }
    return true;
  }

 private:
  explicit LinearSubject(const Shape& shape) : shape_(shape) {}

  int64_t corner_outputs() const { return std::min<int64_t>(kPanelRows, shape_.num_outputs); }
  // No power of two, or all rows of a tile would meet in one set of the first-level cache.
  int64_t stride() const { return shape_.num_outputs + kPanelRows; }

  // The panels of some rows of weights, again and again: large matrices are made in no time.
  Result<> MakeWeights() {
    Result<std::unique_ptr<ThreadPool>> pool = ThreadPool::Make(1);
    if (!pool) return Forward(pool);
    const int64_t distinct = std::min(shape_.num_outputs, kDistinctOutputs);
    const uint64_t row_bytes = *RowBytes(shape_.type, static_cast<uint64_t>(shape_.num_inputs));
    // What FillWeights repeats after kDistinctOutputs rows, so does the matrix.
    std::vector<std::byte> source(row_bytes * static_cast<uint64_t>(distinct + kPanelRows));
    FillWeights({.type = shape_.type, .num_inputs = shape_.num_inputs, .seed = 7}, source);
    const auto pack = [&](int64_t first, int64_t num_outputs) {
      return WeightMatrix::Pack(
          {.type = shape_.type,
           .bytes = std::span(source).subspan(row_bytes * static_cast<uint64_t>(first),
                                              row_bytes * static_cast<uint64_t>(num_outputs)),
           .num_outputs = num_outputs,
           .num_inputs = shape_.num_inputs},
          **pool);
    };
    Result<WeightMatrix> pattern = pack(0, distinct);
    if (!pattern) return Forward(pattern);
    for (const int64_t first : {int64_t{0}, shape_.num_outputs - corner_outputs()}) {
      const int64_t in_pattern = first % kDistinctOutputs;
      Result<WeightMatrix> corner = pack(in_pattern, corner_outputs());
      if (!corner) return Forward(corner);
      corners_.push_back(*std::move(corner));
    }
    const size_t num_panels =
        static_cast<size_t>((shape_.num_outputs + kPanelRows - 1) / kPanelRows);
    Result<AlignedBytes> panels =
        AlignedBytes::Allocate(num_panels * static_cast<size_t>(pattern->panel_bytes()));
    if (!panels) return Forward(panels);
    panels_ = *std::move(panels);
    for (size_t done = 0; done < panels_.size();) {
      const size_t size = std::min(pattern->bytes(), panels_.size() - done);
      std::memcpy(panels_.data() + done, pattern->panel(0), size);
      done += size;
    }
    Result<WeightMatrix> weights = WeightMatrix::FromPanels(
        {.type = shape_.type, .num_outputs = shape_.num_outputs, .num_inputs = shape_.num_inputs},
        {panels_.data(), panels_.size()});
    if (!weights) return Forward(weights);
    weights_ = *std::move(weights);
    return {};
  }

  Result<> MakeRows() {
    Result<AlignedBuffer<float>> rows =
        AlignedBuffer<float>::Allocate(static_cast<size_t>(shape_.max_rows * shape_.num_inputs));
    if (!rows) return Forward(rows);
    rows_ = *std::move(rows);
    FillFloats(11, rows_.span());
    Result<AlignedBuffer<float>> out =
        AlignedBuffer<float>::Allocate(static_cast<size_t>(shape_.max_rows * stride()));
    if (!out) return Forward(out);
    out_ = *std::move(out);
    size_t input_bytes = 0;
    for (const Precision precision : {Precision::kFast, Precision::kExact}) {
      input_bytes =
          std::max(input_bytes, RowInputsBytes(InputsShape(weights(), shape_.max_rows, precision)));
    }
    Result<AlignedBytes> inputs = AlignedBytes::Allocate(input_bytes);
    if (!inputs) return Forward(inputs);
    inputs_ = *std::move(inputs);
    return {};
  }

  static RowInputsShape InputsShape(const WeightMatrix& weights, int64_t num_rows,
                                    Precision precision) {
    return {.num_rows = num_rows,
            .num_inputs = weights.num_inputs(),
            .precision = precision,
            .forms = weights.input_forms()};
  }

  struct MultiplyArgs {
    const float* rows;
    int64_t num_rows;
    Precision precision;
    float* out;
    int64_t stride;
  };
  void Multiply(const KernelContext& context, const WeightMatrix& weights,
                const MultiplyArgs& args) const {
    const RowInputs inputs = QuantizeRows(context, {args.rows, args.num_rows, weights.num_inputs()},
                                          InputsShape(weights, args.num_rows, args.precision),
                                          {inputs_.data(), inputs_.size()});
    Linear(context, weights, inputs, {args.out, args.num_rows, weights.num_outputs(), args.stride});
  }

  Shape shape_;
  AlignedBytes panels_;
  std::optional<WeightMatrix> weights_;  // of panels_
  std::vector<WeightMatrix> corners_;    // the first and the last output rows
  AlignedBuffer<float> rows_;            // [max_rows][num_inputs]
  AlignedBuffer<float> out_;             // [max_rows][stride]
  AlignedBytes inputs_;
};

// One row of the report, to be timed with these kernels.
struct LinearCase {
  const KernelSuiteContext& context;
  const KernelContext& kernels;
  const LinearSubject& subject;
  Precision precision;
};

TimedWork WorkOf(const LinearCase& c, int64_t num_rows) {
  const LinearSubject::Shape& shape = c.subject.shape();
  const bool has_few_rows = num_rows <= kFewRows;
  const double macs = c.subject.MacsPerRow() * static_cast<double>(num_rows);
  const double bytes = static_cast<double>(c.subject.weights().bytes());
  TimedWork work = {.row = {},
                    .run = [c, num_rows] { c.subject.Run(c.kernels, c.precision, num_rows); },
                    .amount = has_few_rows ? bytes : macs,
                    .macs = macs,
                    .bytes = has_few_rows ? bytes : 0};
  work.row.operation = "linear";
  work.row.type = DTypeName(shape.type);
  if (IsQuantizedType(shape.type)) work.row.precision = PrecisionName(c.precision);
  work.row.isa = c.kernels.table.isa;
  work.row.num_threads = c.kernels.pool.num_threads();
  work.row.shape = {
      {"rows", num_rows}, {"outputs", shape.num_outputs}, {"inputs", shape.num_inputs}};
  work.row.unit = has_few_rows ? "GB/s" : "GMAC/s";
  work.row.is_right = c.subject.IsRight(c.kernels, c.context.portable, c.precision, num_rows);
  return work;
}

// Where AVX2 has no dot product of bytes, its f32 products are the better yardstick.
std::vector<Yardstick> YardsticksFor(const LinearCase& c, bool has_few_rows) {
  std::vector<Yardstick> yardsticks;
  if (has_few_rows) {
    yardsticks.push_back({"read", ReadLimitWork(c.kernels, {c.subject.WeightBytes()})});
  }
  const Isa isa = c.kernels.table.isa;
  const bool has_byte_products = isa == Isa::kAvxVnni || isa == Isa::kAvx512;
  if (IsQuantizedType(c.subject.shape().type) && has_byte_products) {
    yardsticks.push_back({"int8", IntegerLimitWork(c.kernels)});
  }
  yardsticks.push_back({"fma", FloatLimitWork(c.kernels)});
  return yardsticks;
}

// The same subject with several numbers of rows, timed in turn.
void BenchSubject(const LinearCase& c, const std::vector<int64_t>& row_counts) {
  std::vector<TimedWork> works;
  for (const int64_t n : row_counts) works.push_back(WorkOf(c, n));
  const bool has_few_rows = row_counts.front() <= kFewRows;
  std::vector<KernelRow> rows =
      TimeRows(std::move(works),
               {.yardsticks = YardsticksFor(c, has_few_rows),
                .timing = c.context.timing(),
                .compare_time_with_first = row_counts.front() == 1 ? "time of 1 row" : ""});
  std::move(rows.begin(), rows.end(), std::back_inserter(c.context.report.rows));
}

void CompareThreads(const LinearCase& two, int64_t num_rows) {
  const KernelSuiteContext& context = two.context;
  const double speed_up =
      TimeRatio([&] { two.subject.Run(context.kernels, two.precision, num_rows); },
                [&] { two.subject.Run(context.two, two.precision, num_rows); }, context.timing());
  std::vector<TimedWork> works;
  works.push_back(WorkOf(two, num_rows));
  KernelRow row = TimeRows(std::move(works), {.yardsticks = YardsticksFor(two, false),
                                              .timing = context.timing(),
                                              .compare_time_with_first = {}})
                      .front();
  row.comparison = {.of = "speed of 1 thread", .ratio = speed_up};
  context.report.rows.push_back(std::move(row));
}

std::vector<LinearExtents> ManyRowShapes(const KernelSuiteOptions& options) {
  if (!options.shapes.empty()) return options.shapes;
  if (options.is_quick) return {{18, 40, 256}};
  return {{512, 1536, 576}, {512, 576, 1536}, {512, 4096, 4096}};
}

// K-quants have blocks of 256 inputs; a shape that they do not divide is left out of their rows.
bool CanHold(DType type, int64_t num_inputs) {
  return RowBytes(type, static_cast<uint64_t>(num_inputs)).has_value();
}

std::vector<Precision> PrecisionsFor(DType type, const KernelSuiteOptions& options) {
  if (IsQuantizedType(type)) return options.precisions;
  return {Precision::kFast};
}

LinearCase CaseOf(const KernelSuiteContext& context, const LinearSubject& subject,
                  Precision precision) {
  return {
      .context = context, .kernels = context.kernels, .subject = subject, .precision = precision};
}

Result<> BenchManyRows(const KernelSuiteContext& context, DType type) {
  for (LinearExtents extents : ManyRowShapes(context.options)) {
    if (!CanHold(type, extents.num_inputs)) {
      // The usual shapes, for blocks of 256.
      if (!context.options.shapes.empty()) continue;
      extents.num_inputs = (extents.num_inputs + 255) / 256 * 256;
    }
    context.progress(fmt::format("linear {} {} x {} x {}", DTypeName(type), extents.num_rows,
                                 extents.num_outputs, extents.num_inputs));
    Result<LinearSubject> subject = LinearSubject::Make({.type = type,
                                                         .num_outputs = extents.num_outputs,
                                                         .num_inputs = extents.num_inputs,
                                                         .max_rows = extents.num_rows});
    if (!subject) return Forward(subject);
    for (const Precision precision : PrecisionsFor(type, context.options)) {
      BenchSubject(CaseOf(context, *subject, precision), {extents.num_rows});
    }
    const bool is_large = extents.num_outputs >= 4096 && extents.num_rows >= 256;
    if (is_large && context.can_compare_threads()) {
      CompareThreads({.context = context,
                      .kernels = context.two,
                      .subject = *subject,
                      .precision = Precision::kFast},
                     extents.num_rows);
    }
  }
  return {};
}

Result<> BenchFewRows(const KernelSuiteContext& context, DType type) {
  const int64_t num_inputs = context.options.is_quick ? 256 : kLargeInputs;
  const double row_bytes = static_cast<double>(*RowBytes(type, static_cast<uint64_t>(num_inputs)));
  const int64_t num_outputs =
      static_cast<int64_t>(static_cast<double>(context.BytesBehindCaches()) / row_bytes) / 64 * 64;
  context.progress(
      fmt::format("linear {} 1 to 16 rows x {} x {}", DTypeName(type), num_outputs, num_inputs));
  Result<LinearSubject> subject = LinearSubject::Make(
      {.type = type, .num_outputs = num_outputs, .num_inputs = num_inputs, .max_rows = kFewRows});
  if (!subject) return Forward(subject);
  for (const Precision precision : PrecisionsFor(type, context.options)) {
    // 16-bit inputs cost arithmetic, not memory: two sizes show it.
    const bool is_exact = precision == Precision::kExact;
    BenchSubject(CaseOf(context, *subject, precision),
                 is_exact ? std::vector<int64_t>{1, 8} : std::vector<int64_t>{1, 2, 4, 8, 16});
  }
  return {};
}

}  // namespace

Result<> BenchLinear(const KernelSuiteContext& context) {
  for (const DType type : context.options.types) {
    if (Result<> done = BenchManyRows(context, type); !done) return done;
    if (!context.options.shapes.empty()) continue;
    if (Result<> done = BenchFewRows(context, type); !done) return done;
  }
  return {};
}

}  // namespace baton
