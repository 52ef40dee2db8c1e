#include "kernels/layer_inputs.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "kernels/isa.h"
#include "tensor/aligned_buffer.h"

namespace baton {
namespace {

constexpr float kNormEpsilon = 1e-5f;

std::vector<float> RandomFloats(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random) * (random() % 50 == 0 ? 30.0f : 1.0f);
  return values;
}

// Rows in kernel form and the memory that they are views of.
class Buffer {
 public:
  explicit Buffer(const RowInputsShape& shape)
      : bytes_(*AlignedBytes::Allocate(RowInputsBytes(shape))) {
    std::memset(bytes_.data(), 0, bytes_.size());
  }
  std::span<std::byte> span() { return {bytes_.data(), bytes_.size()}; }
  bool SameBytes(const Buffer& other) const {
    return bytes_.size() == other.bytes_.size() &&
           std::memcmp(bytes_.data(), other.bytes_.data(), bytes_.size()) == 0;
  }

 private:
  AlignedBytes bytes_;
};

struct Case {
  int64_t num_rows;
  int64_t width;
  int num_threads;
};

// Rows around the tile and the tasks; widths around the pieces that long rows are cut into.
std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const int threads : {1, 2, 3}) {
    for (const int64_t rows : {1, 2, 3, 5, 16, 17, 33}) {
      for (const int64_t width : {32, 576, 3072, 4128, 8192})
        cases.push_back({rows, width, threads});
    }
  }
  cases.push_back({300, 96, 2});
  // More threads share a tile's rows: runs of a few of them.
  for (const int threads : {5, 8}) {
    for (const int64_t rows : {4, 12, 16, 33}) {
      for (const int64_t width : {96, 576}) cases.push_back({rows, width, threads});
    }
  }
  return cases;
}

// All kinds of side values.
InputForms AllForms() {
  InputForms forms;
  for (const DType type : {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ8_0, DType::kQ2_K,
                           DType::kQ3_K, DType::kQ6_K, DType::kF32}) {
    forms = forms | InputForms::For(type);
  }
  return forms;
}

class LayerInputsTest : public testing::TestWithParam<Precision> {
 protected:
  RowInputsShape ShapeOf(const Case& c) const {
    return {.num_rows = c.num_rows,
            .num_inputs = c.width,
            .precision = GetParam(),
            .forms = AllForms()};
  }
};

TEST_P(LayerInputsTest, NormIsTheOperationsOneAfterTheOther) {
  for (const Case& c : Cases()) {
    for (const bool has_update : {false, true}) {
      const auto pool = *ThreadPool::Make(c.num_threads);
      const KernelContext context = {.table = KernelsFor(BestIsa()), .pool = *pool};
      SCOPED_TRACE(testing::Message() << c.num_rows << " x " << c.width << ", threads "
                                      << c.num_threads << ", update " << has_update);
      const int64_t count = c.num_rows * c.width;
      const auto view = [&c](std::vector<float>& values) {
        return View2<float>(values.data(), c.num_rows, c.width);
      };
      const std::vector<float> weight = RandomFloats(c.width, 3);
      const std::vector<float> update_norm = RandomFloats(c.width, 4);
      const View1<const float> weights = {weight.data(), c.width};
      // The norm of the update and its scale are used in every other case.
      const bool is_normed = c.num_rows % 2 == 1;
      const float scale = is_normed ? 0.7f : 1.0f;

      std::vector<float> hidden = RandomFloats(count, 1);
      std::vector<float> update = RandomFloats(count, 2);
      std::vector<float> normed(static_cast<size_t>(count));
      if (has_update) {
        if (is_normed) {
          RmsNorm(context, {.in = view(update),
                            .weight = {update_norm.data(), c.width},
                            .eps = kNormEpsilon,
                            .out = view(update)});
        }
        ScaleRows(context, {.in = view(update), .factor = scale, .out = view(update)});
        AddRows(context, {.a = view(hidden), .b = view(update), .out = view(hidden)});
      }
      RmsNorm(context,
              {.in = view(hidden), .weight = weights, .eps = kNormEpsilon, .out = view(normed)});
      Buffer expected(ShapeOf(c));
      QuantizeRows(context, view(normed), ShapeOf(c), expected.span());

      std::vector<float> got_hidden = RandomFloats(count, 1);
      std::vector<float> got_update = RandomFloats(count, 2);  // and the norm, in the same memory
      Buffer got(ShapeOf(c));
      NormInputs(context,
                 {.hidden = view(got_hidden),
                  .update = has_update ? view(got_update) : View2<float>(),
                  .update_norm = is_normed ? View1<const float>(update_norm.data(), c.width)
                                           : View1<const float>(),
                  .update_scale = scale,
                  .weight = weights,
                  .eps = kNormEpsilon,
                  .normed = view(got_update)},
                 ShapeOf(c), got.span());
      EXPECT_TRUE(got.SameBytes(expected));
      EXPECT_EQ(std::memcmp(got_hidden.data(), hidden.data(), hidden.size() * sizeof(float)), 0);
      EXPECT_EQ(std::memcmp(got_update.data(), normed.data(), normed.size() * sizeof(float)), 0);
    }
  }
}

TEST_P(LayerInputsTest, GateIsTheOperationsOneAfterTheOther) {
  for (const Case& c : Cases()) {
    for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
      const auto pool = *ThreadPool::Make(c.num_threads);
      const KernelContext context = {.table = KernelsFor(BestIsa()), .pool = *pool};
      SCOPED_TRACE(testing::Message()
                   << c.num_rows << " x " << c.width << ", threads " << c.num_threads);
      std::vector<float> gate = RandomFloats(c.num_rows * c.width, 1);
      std::vector<float> got_gate = gate;
      std::vector<float> up = RandomFloats(c.num_rows * c.width, 2);
      const View2<float> ups(up.data(), c.num_rows, c.width);
      const View2<float> gates(gate.data(), c.num_rows, c.width);
      GatedActivation(context, {.gate = gates, .up = ups, .activation = activation, .out = gates});
      Buffer expected(ShapeOf(c));
      QuantizeRows(context, gates, ShapeOf(c), expected.span());

      Buffer got(ShapeOf(c));
      GatedInputs(
          context,
          {.gate = {got_gate.data(), c.num_rows, c.width}, .up = ups, .activation = activation},
          ShapeOf(c), got.span());
      EXPECT_TRUE(got.SameBytes(expected));
      EXPECT_EQ(std::memcmp(got_gate.data(), gate.data(), gate.size() * sizeof(float)), 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, LayerInputsTest,
                         testing::Values(Precision::kFast, Precision::kExact),
                         [](const auto& test) {
                           return test.param == Precision::kFast ? "Fast" : "Exact";
                         });

}  // namespace
}  // namespace baton
