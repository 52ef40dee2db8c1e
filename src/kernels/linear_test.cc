#include "kernels/linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/test_linear_problem.h"

namespace baton {
namespace {

constexpr DType kTypes[] = {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0,
                            DType::kQ2_K, DType::kQ3_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K,
                            DType::kF16,  DType::kBF16, DType::kF32};
constexpr Precision kPrecisions[] = {Precision::kFast, Precision::kExact};

FileMatrix RandomMatrix(DType type, int64_t num_outputs, int64_t num_inputs, uint32_t seed) {
  std::mt19937 random(seed);
  return RandomFileMatrix(type, num_outputs, num_inputs, random);
}

std::vector<float> RandomRows(int64_t num_rows, int64_t num_inputs, uint32_t seed) {
  std::mt19937 random(seed);
  return RandomInputRows(num_rows, num_inputs, random);
}

std::unique_ptr<ThreadPool> MakePool(int num_threads) {
  auto pool = ThreadPool::Make(num_threads);
  CHECK(pool.has_value());
  return *std::move(pool);
}

WeightMatrix MustPack(const FileMatrix& matrix, ThreadPool& pool) {
  Result<WeightMatrix> packed = WeightMatrix::Pack(matrix.source(), pool);
  CHECK(packed.has_value());
  return *std::move(packed);
}

// What is expected of any run: each row alone, portable, one thread.
std::vector<float> RowByRow(const WeightMatrix& weights, std::span<const float> rows,
                            Precision precision, ThreadPool& pool) {
  const KernelContext context{.table = KernelsFor(Isa::kPortable), .pool = pool};
  const size_t num_inputs = static_cast<size_t>(weights.num_inputs());
  std::vector<float> out;
  for (size_t first = 0; first < rows.size(); first += num_inputs) {
    const std::vector<float> one =
        RunLinearRows(context, weights, rows.subspan(first, num_inputs), precision);
    out.insert(out.end(), one.begin(), one.end());
  }
  return out;
}

std::string Describe(const FileMatrix& matrix, Precision precision) {
  return std::string(DTypeName(matrix.type)) + " [" + std::to_string(matrix.num_outputs) + ", " +
         std::to_string(matrix.num_inputs) + "] precision " +
         std::to_string(static_cast<int>(precision));
}

std::vector<int64_t> InputCounts(DType type) {
  switch (TraitsOf(type).block_elements) {
    case 1:
      return {1, 15, 16, 17, 31, 64, 97, 257};
    case 32:
      return {32, 64, 96, 224, 256, 288};
    default:
      return {256, 512, 768};
  }
}

class LinearTest : public testing::TestWithParam<DType> {
 protected:
  LinearTest() {
    for (int threads = 1; threads <= 3; ++threads) pools_.push_back(MakePool(threads));
  }
  ThreadPool& pool(int num_threads) { return *pools_[static_cast<size_t>(num_threads - 1)]; }

  // Every instruction set, number of rows, first row and number of threads gives the rows of
  // `want`.
  void ExpectSameEverywhere(const WeightMatrix& weights, std::span<const float> rows,
                            Precision precision, std::span<const float> want,
                            std::span<const int> row_counts) {
    const size_t num_inputs = static_cast<size_t>(weights.num_inputs());
    const size_t num_outputs = static_cast<size_t>(weights.num_outputs());
    const size_t num_rows = rows.size() / num_inputs;
    for (const Isa isa : RunnableIsas()) {
      for (const int count : row_counts) {
        const size_t n = static_cast<size_t>(count);
        const size_t first = (n * 7) % (num_rows - n + 1);
        const int threads = 1 + count % 3;
        // Many rows at once, and a tile at a time, whichever is faster here.
        for (const uint32_t tiles_only : {0u, ~0u}) {
          KernelTable table = KernelsFor(isa);
          table.tiles_only = tiles_only;
          const KernelContext context{.table = table, .pool = pool(threads)};
          const std::vector<float> got = RunLinearRows(
              context, weights, rows.subspan(first * num_inputs, n * num_inputs), precision);
          ASSERT_TRUE(SameNumbers(got, want.subspan(first * num_outputs, n * num_outputs)))
              << isa << ", rows " << first << " to " << first + n << ", threads " << threads
              << ", tiles only " << tiles_only;
          if (n < 2 * kLinearTileRows) break;
        }
      }
    }
  }

 private:
  std::vector<std::unique_ptr<ThreadPool>> pools_;
};

TEST_P(LinearTest, SameBitsEverywhereAndNearTheReference) {
  const DType type = GetParam();
  constexpr int kRows = 40;
  constexpr int kFewCounts[] = {1, 2, 3, 5, 9, 16, 17, 40};
  std::vector<int> all_counts;
  for (int n = 1; n <= kRows; ++n) all_counts.push_back(n);
  uint32_t seed = 1;
  for (const int64_t num_outputs : {1, 15, 16, 17, 37}) {
    for (const int64_t num_inputs : InputCounts(type)) {
      const FileMatrix matrix = RandomMatrix(type, num_outputs, num_inputs, ++seed);
      const WeightMatrix weights = MustPack(matrix, pool(2));
      const std::vector<float> rows = RandomRows(kRows, num_inputs, ++seed);
      for (const Precision precision : kPrecisions) {
        SCOPED_TRACE(Describe(matrix, precision) + " seed " + std::to_string(seed));
        const std::vector<float> want = RowByRow(weights, rows, precision, pool(1));
        const bool all = num_outputs == 37 && num_inputs == InputCounts(type).back();
        ASSERT_NO_FATAL_FAILURE(ExpectLinearNearReference(matrix, rows, precision, want));
        ASSERT_NO_FATAL_FAILURE(ExpectSameEverywhere(
            weights, rows, precision, want, all ? std::span<const int>(all_counts) : kFewCounts));
      }
    }
  }
}

// Enough rows, outputs and inputs that weights are expanded once for many rows: several groups of
// panels, blocks of rows and spans of inputs, each with something left over.
TEST_P(LinearTest, ManyRowsGiveTheSameBits) {
  const DType type = GetParam();
  const int block_elements = TraitsOf(type).block_elements;
  const int64_t num_inputs = block_elements == 1 ? 300 : block_elements == 32 ? 1120 : 1280;
  for (const int64_t num_outputs : {64, 150}) {
    const FileMatrix matrix = RandomMatrix(type, num_outputs, num_inputs, 21);
    const WeightMatrix weights = MustPack(matrix, pool(2));
    const std::vector<float> rows = RandomRows(75, num_inputs, 22);
    for (const Precision precision : kPrecisions) {
      SCOPED_TRACE(Describe(matrix, precision));
      const std::vector<float> want = RowByRow(weights, rows, precision, pool(1));
      constexpr int kCounts[] = {31, 32, 48, 73, 74, 75};
      ASSERT_NO_FATAL_FAILURE(ExpectSameEverywhere(weights, rows, precision, want, kCounts));
    }
  }
}

// Layers that read the same inputs share out their tasks, whatever their sizes.
TEST(Linear, SeveralAtOnceEqualEachAlone) {
  constexpr int64_t kInputs = 64;
  const auto one = MakePool(1);
  std::vector<WeightMatrix> weights;
  for (const int64_t num_outputs : {400, 16, 33}) {
    weights.push_back(MustPack(RandomMatrix(DType::kQ4_0, num_outputs, kInputs, 5), *one));
  }
  for (const int64_t num_rows : {1, 40}) {
    const std::vector<float> rows = RandomRows(num_rows, kInputs, 6);
    const RowInputsShape shape{.num_rows = num_rows,
                               .num_inputs = kInputs,
                               .precision = Precision::kFast,
                               .forms = weights[0].input_forms()};
    const auto buffer = *AlignedBytes::Allocate(RowInputsBytes(shape));
    for (const int num_threads : {1, 2, 3, 7}) {
      const auto pool = MakePool(num_threads);
      const KernelContext context{.table = KernelsFor(BestIsa()), .pool = *pool};
      const RowInputs inputs = QuantizeRows(context, {rows.data(), num_rows, kInputs}, shape,
                                            {buffer.data(), buffer.size()});
      std::vector<std::vector<float>> outs;
      std::vector<LinearJob> jobs;
      for (const WeightMatrix& matrix : weights) {
        std::vector<float>& out =
            outs.emplace_back(static_cast<size_t>(num_rows * matrix.num_outputs()));
        jobs.push_back({.weights = &matrix, .out = {out.data(), num_rows, matrix.num_outputs()}});
      }
      Linear(context, inputs, jobs);
      for (size_t i = 0; i < weights.size(); ++i) {
        EXPECT_TRUE(
            SameNumbers(outs[i], RunLinearRows({.table = KernelsFor(BestIsa()), .pool = *one},
                                               weights[i], rows, Precision::kFast)))
            << "layer " << i << " rows " << num_rows << " threads " << num_threads;
      }
    }
  }
}

TEST_P(LinearTest, DecodesTheRowsOfTheFile) {
  const DType type = GetParam();
  for (const int64_t num_inputs : InputCounts(type)) {
    const FileMatrix matrix = RandomMatrix(type, 35, num_inputs, 77);
    const WeightMatrix weights = MustPack(matrix, pool(3));
    std::vector<float> row(static_cast<size_t>(num_inputs));
    for (int64_t o = 0; o < matrix.num_outputs; ++o) {
      weights.DequantizeRow(o, row);
      const std::vector<float> want = matrix.Row(o);
      ASSERT_EQ(std::memcmp(row.data(), want.data(), row.size() * sizeof(float)), 0)
          << type << " row " << o << " of " << num_inputs;
    }
  }
}

// Codes and inputs at the ends of their ranges, where a narrow sum would overflow. All scales
// are 1.
TEST_P(LinearTest, ExtremeCodesDoNotSaturate) {
  const DType type = GetParam();
  const BlockFields* fields = BlockFieldsOf(type);
  if (fields == nullptr) GTEST_SKIP() << "float weights have no codes";
  constexpr int64_t kInputs = 512;
  // With a largest magnitude of 32,512, the codes under kExact are the inputs themselves: low bytes
  // of -128, carries, both ends.
  constexpr float kEnds[] = {32512, -32512, 32384, -32640 + 128, 128, -128, 127, -129, 32511, 0};
  for (const int fill : {0x00, 0xff, 0x55, 0xf0, 0x80, 0x7f}) {
    FileMatrix matrix = RandomMatrix(type, 69, kInputs, 5);
    for (size_t i = 0; i < matrix.bytes.size(); ++i) {
      matrix.bytes[i] = static_cast<std::byte>(fill);
    }
    for (size_t i = 0; i < matrix.bytes.size(); i += TraitsOf(type).block_bytes) {
      PutHalf(&matrix.bytes[i] + fields->scale, 0x3c00);
      if (fields->min >= 0) PutHalf(&matrix.bytes[i] + fields->min, 0xbc00);
    }
    const WeightMatrix weights = MustPack(matrix, pool(1));
    std::vector<float> rows;
    for (size_t pattern = 0; pattern < 4 * std::size(kEnds); ++pattern) {
      for (int64_t i = 0; i < kInputs; ++i) {
        const size_t other = pattern + static_cast<size_t>(i) * (pattern % 3);
        rows.push_back(i % 32 == 31 ? 32512.0f : kEnds[other % std::size(kEnds)]);
      }
    }
    for (const Precision precision : kPrecisions) {
      SCOPED_TRACE(Describe(matrix, precision) + " fill " + std::to_string(fill));
      const std::vector<float> want = RowByRow(weights, rows, precision, pool(1));
      ASSERT_NO_FATAL_FAILURE(ExpectLinearNearReference(matrix, rows, precision, want));
      constexpr int kCounts[] = {1, 2, 4, 10, 40};
      ASSERT_NO_FATAL_FAILURE(ExpectSameEverywhere(weights, rows, precision, want, kCounts));
    }
  }
}

// Scales at the ends of binary16, infinite and NaN among them: no reference, but the same bits.
TEST_P(LinearTest, ExtremeScalesGiveTheSameBits) {
  const DType type = GetParam();
  const BlockFields* fields = BlockFieldsOf(type);
  if (fields == nullptr) GTEST_SKIP() << "float weights have no scales";
  constexpr int64_t kInputs = 512;
  constexpr uint16_t kScales[] = {0x0000, 0x8000, 0x0001, 0x83ff, 0x7bff, 0xfbff, 0x7c00, 0x7e00};
  FileMatrix matrix = RandomMatrix(type, 64, kInputs, 6);
  for (int64_t o = 0; o < matrix.num_outputs; ++o) {
    // The first six kinds mixed in outputs 0..15, each kind alone in the others.
    for (int64_t i = 0; i < matrix.row_bytes(); i += TraitsOf(type).block_bytes) {
      std::byte* block = matrix.bytes.data() + o * matrix.row_bytes() + i;
      const int64_t kind = o < 16 ? (o + i) % 6 : o % 8;
      PutHalf(block + fields->scale, kScales[kind]);
      if (fields->min >= 0) PutHalf(block + fields->min, kScales[(kind + o) % 8]);
    }
  }
  const WeightMatrix weights = MustPack(matrix, pool(1));
  std::vector<float> rows = RandomRows(40, kInputs, 8);
  for (size_t i = 0; i < rows.size(); ++i) {
    constexpr float kFactors[] = {1.0f, 1e30f, 1e-30f, 1e-37f, 0.0f};
    rows[i] *= kFactors[i / static_cast<size_t>(kInputs) % 5];
  }
  for (const Precision precision : kPrecisions) {
    SCOPED_TRACE(Describe(matrix, precision));
    const std::vector<float> want = RowByRow(weights, rows, precision, pool(1));
    constexpr int kCounts[] = {1, 3, 10, 40};
    ASSERT_NO_FATAL_FAILURE(ExpectSameEverywhere(weights, rows, precision, want, kCounts));
  }
}

// Zeros, the smallest and the largest numbers; and a row that is not finite spoils itself only.
TEST_P(LinearTest, ExtremeInputs) {
  const DType type = GetParam();
  constexpr int64_t kInputs = 256;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const FileMatrix matrix = RandomMatrix(type, 20, kInputs, 9);
  const WeightMatrix weights = MustPack(matrix, pool(1));
  constexpr float kFactors[] = {0.0f,      0x1p-126f, 0x1.8p-121f, 0x1p-119f, 0x1p-112f,
                                0x1p-111f, 1e-30f,    1e20f,       1e33f,     1.0f};
  std::vector<float> rows = RandomRows(13, kInputs, 10);
  const auto row = [&](size_t r) { return std::span(rows).subspan(r * kInputs, kInputs); };
  for (size_t r = 0; r < std::size(kFactors); ++r) {
    for (float& x : row(r)) x = std::clamp(x, -2.0f, 2.0f) * kFactors[r];
  }
  row(10)[200] = kNan;
  row(11)[3] = kInfinity;
  row(12)[255] = -kInfinity;
  for (const Precision precision : kPrecisions) {
    SCOPED_TRACE(Describe(matrix, precision));
    const std::vector<float> want = RowByRow(weights, rows, precision, pool(1));
    const std::span finite_rows = std::span(rows).first(10 * kInputs);
    ASSERT_NO_FATAL_FAILURE(ExpectLinearNearReference(matrix, finite_rows, precision, want));
    for (size_t i = 10 * 20; i < 11 * 20; ++i) EXPECT_TRUE(std::isnan(want[i]));
    for (size_t i = 11 * 20; i < 13 * 20; ++i) EXPECT_FALSE(std::isfinite(want[i]));
    constexpr int kCounts[] = {1, 2, 13};
    ASSERT_NO_FATAL_FAILURE(ExpectSameEverywhere(weights, rows, precision, want, kCounts));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, LinearTest, testing::ValuesIn(kTypes),
                         [](const auto& type) { return std::string(DTypeName(type.param)); });

// One quantization serves matrices of all types, and no rows are no work.
TEST(RowInputs, ServeSeveralTypesAtOnce) {
  const auto pool = MakePool(2);
  constexpr int64_t kRows = 21;
  constexpr int64_t kInputs = 512;
  const std::vector<float> rows = RandomRows(kRows, kInputs, 3);
  InputForms forms;
  for (const DType type : kTypes) forms = forms | InputForms::For(type);
  for (const Isa isa : RunnableIsas()) {
    const KernelContext context{.table = KernelsFor(isa), .pool = *pool};
    for (const Precision precision : kPrecisions) {
      const RowInputsShape shape{
          .num_rows = kRows, .num_inputs = kInputs, .precision = precision, .forms = forms};
      const auto buffer = AlignedBytes::Allocate(RowInputsBytes(shape));
      ASSERT_TRUE(buffer);
      const RowInputs inputs = QuantizeRows(context, {rows.data(), kRows, kInputs}, shape,
                                            {buffer->data(), buffer->size()});
      for (const DType type : kTypes) {
        const WeightMatrix weights = MustPack(RandomMatrix(type, 33, kInputs, 4), *pool);
        std::vector<float> out(kRows * 33);
        Linear(context, weights, inputs, {out.data(), kRows, 33});
        EXPECT_TRUE(SameNumbers(out, RunLinearRows(context, weights, rows, precision))) << type;
      }
    }
  }
}

TEST(RowInputs, NoRows) {
  const auto pool = MakePool(1);
  const KernelContext context{.table = KernelsFor(Isa::kPortable), .pool = *pool};
  const WeightMatrix weights = MustPack(RandomMatrix(DType::kQ4_K, 33, 256, 4), *pool);
  EXPECT_TRUE(RunLinearRows(context, weights, {}, Precision::kFast).empty());
}

TEST(WeightMatrix, RefusesWhatIsNoMatrix) {
  const auto pool = MakePool(1);
  const FileMatrix matrix = RandomMatrix(DType::kQ4_K, 2, 256, 1);
  const auto code = [&](WeightSource source) {
    const Result<WeightMatrix> packed = WeightMatrix::Pack(source, *pool);
    return packed ? ErrorCode::kInternal : packed.error().code;
  };
  WeightSource source = matrix.source();
  source.num_outputs = 3;
  EXPECT_EQ(code(source), ErrorCode::kInvalid);
  source.num_outputs = 0;
  EXPECT_EQ(code(source), ErrorCode::kInvalid);
  source.num_outputs = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(code(source), ErrorCode::kInvalid);
  source = matrix.source();
  source.num_inputs = 255;
  EXPECT_EQ(code(source), ErrorCode::kInvalid);
  source = matrix.source();
  source.type = DType::kIQ4_XS;
  EXPECT_EQ(code(source), ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace baton
