// Random shapes for linear layers (test_random_shapes.h).
#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <vector>

#include "kernels/test_linear_problem.h"
#include "kernels/test_random_shapes.h"

namespace baton {
namespace {

constexpr DType kTypes[] = {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0,
                            DType::kQ2_K, DType::kQ3_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K,
                            DType::kF16,  DType::kBF16, DType::kF32};

class RandomLinearShapesTest : public RandomShapesTest {
 protected:
  void Run(uint32_t count);
  void LinearShape(Draw& draw);
};

// Packing, quantization of inputs, the product, and decoding of rows.
void RandomLinearShapesTest::LinearShape(Draw& draw) {
  const DType type = draw.Of(kTypes);
  const int64_t block = TraitsOf(type).block_elements;
  const int64_t num_inputs = block * draw.Size(block == 1 ? 400 : block == 32 ? 44 : 6);
  const int64_t num_outputs = draw.Size(160);
  const int64_t num_rows = draw.Size(100);
  const Precision precision = draw.Once(2) ? Precision::kFast : Precision::kExact;
  SCOPED_TRACE(testing::Message() << "linear " << type << " [" << num_outputs << ", " << num_inputs
                                  << "] rows " << num_rows << " precision "
                                  << static_cast<int>(precision));
  const FileMatrix matrix = RandomFileMatrix(type, num_outputs, num_inputs, draw.random());
  const std::vector<float> rows = RandomInputRows(num_rows, num_inputs, draw.random());
  const Result<WeightMatrix> weights = WeightMatrix::Pack(matrix.source(), Pool(draw));
  ASSERT_TRUE(weights);

  std::vector<float> decoded(static_cast<size_t>(num_inputs));
  const int64_t some_output = draw.Between(0, num_outputs - 1);
  weights->DequantizeRow(some_output, decoded);
  ASSERT_EQ(
      std::memcmp(decoded.data(), matrix.Row(some_output).data(), decoded.size() * sizeof(float)),
      0);

  std::vector<float> first;
  for (const Isa isa : RunnableIsas()) {
    KernelTable table = KernelsFor(isa);
    if (!draw.Once(3)) table.tiles_only = draw.Once(2) ? 0u : ~0u;
    const KernelContext context = {.table = table, .pool = Context(draw, isa).pool};
    const std::vector<float> out = RunLinearRows(context, *weights, rows, precision);
    if (isa == Isa::kPortable) first = out;
    ASSERT_TRUE(SameNumbers(out, first)) << isa << ", tiles only " << table.tiles_only;
  }
  // Some rows against binary64, and by themselves.
  for (int i = 0; i < 3; ++i) {
    const size_t r = static_cast<size_t>(draw.Between(0, num_rows - 1));
    const auto row = std::span(rows).subspan(r * static_cast<size_t>(num_inputs),
                                             static_cast<size_t>(num_inputs));
    const auto want = std::span(first).subspan(r * static_cast<size_t>(num_outputs),
                                               static_cast<size_t>(num_outputs));
    ASSERT_NO_FATAL_FAILURE(ExpectLinearNearReference(matrix, row, precision, want));
    const Isa isa = RunnableIsas()[static_cast<size_t>(
        draw.Between(0, static_cast<int64_t>(RunnableIsas().size()) - 1))];
    ASSERT_TRUE(SameNumbers(RunLinearRows(Context(draw, isa), *weights, row, precision), want))
        << isa << ", row " << r << " alone";
  }
}

void RandomLinearShapesTest::Run(uint32_t count) {
  ForShapes(count, [&](Draw& draw, uint32_t number) {
    static_cast<void>(number);
    LinearShape(draw);
  });
}

TEST_F(RandomLinearShapesTest, AreRight) {
  Run(60);
}

// tests/nightly --only shapes
TEST_F(RandomLinearShapesTest, DISABLED_TwoThousandAreRight) {
  Run(2000);
}

}  // namespace
}  // namespace baton
