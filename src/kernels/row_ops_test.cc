#include "kernels/row_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "kernels/isa.h"
#include "kernels/row_ops_ref.h"

namespace baton {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A matrix inside larger memory: misaligned, with a stride, and fenced by NaN that no operation
// may read into a result or overwrite.
class Matrix {
 public:
  Matrix(int64_t rows, int64_t cols) : rows_(rows), cols_(cols) {
    data_.assign(static_cast<size_t>(rows * (cols + kGap) + kGap), kNaN);
  }
  View2<float> view() { return {data_.data() + 3, rows_, cols_, cols_ + kGap}; }

  void FillNormal(uint32_t seed, float range) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (int64_t r = 0; r < rows_; ++r) {
      for (float& x : view().Row(r)) x = range * normal(random);
    }
  }
  // Whether the memory between the rows is as it was.
  bool FenceIntact() {
    std::vector<bool> inside(data_.size(), false);
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t c = 0; c < cols_; ++c)
        inside[static_cast<size_t>(3 + r * (cols_ + kGap) + c)] = true;
    }
    for (size_t i = 0; i < data_.size(); ++i) {
      if (!inside[i] && !std::isnan(data_[i])) return false;
    }
    return true;
  }
  bool SameBits(const Matrix& other) const {
    return std::memcmp(data_.data(), other.data_.data(), data_.size() * sizeof(float)) == 0;
  }
  std::vector<float> RowValues(int64_t r) { return {view().row(r), view().row(r) + cols_}; }

 private:
  static constexpr int64_t kGap = 5;
  int64_t rows_;
  int64_t cols_;
  std::vector<float> data_;
};

class RowOpsTest : public testing::Test {
 protected:
  KernelContext Context(Isa isa) { return {.table = KernelsFor(isa), .pool = *pool_}; }
  std::unique_ptr<ThreadPool> pool_ = *ThreadPool::Make(2);
};

constexpr int64_t kWidths[] = {1, 2, 15, 16, 17, 31, 63, 64, 65, 79, 80, 127, 576, 577, 1536};

TEST_F(RowOpsTest, RmsNormAgreesWithTheFormulaOnEveryInstructionSet) {
  for (const int64_t width : kWidths) {
    for (const float range : {1e-3f, 1.0f, 300.0f}) {
      Matrix in(3, width);
      in.FillNormal(static_cast<uint32_t>(width), range);
      std::vector<float> weight(static_cast<size_t>(width));
      std::mt19937 random(1);
      for (float& w : weight) w = std::normal_distribution<float>(1.0f, 0.5f)(random);
      Matrix first(3, width);
      for (const Isa isa : RunnableIsas()) {
        SCOPED_TRACE(testing::Message()
                     << IsaName(isa) << " width " << width << " range " << range);
        Matrix out(3, width);
        RmsNorm(
            Context(isa),
            {.in = in.view(), .weight = {weight.data(), width}, .eps = 1e-5f, .out = out.view()});
        EXPECT_TRUE(out.FenceIntact());
        for (int64_t r = 0; r < 3; ++r) {
          const std::vector<double> expected =
              RmsNormReference(in.RowValues(r), weight, static_cast<double>(1e-5f));
          for (int64_t c = 0; c < width; ++c) {
            // The sum of w squares has at most w / 64 + 10 roundings in a chain, halved by the
            // root.
            const double bound = std::fabs(expected[static_cast<size_t>(c)]) * 0x1p-24 *
                                 (static_cast<double>(width) / 128 + 10);
            ASSERT_NEAR(static_cast<double>(out.view()(r, c)), expected[static_cast<size_t>(c)],
                        bound);
          }
        }
        if (isa == Isa::kPortable) first = out;
        EXPECT_TRUE(out.SameBits(first));
      }
    }
  }
}

TEST_F(RowOpsTest, RmsNormOfHeadsIsThatOfEachHeadAlone) {
  Matrix x(5, 3 * 64);
  x.FillNormal(2, 1.0f);
  std::vector<float> weight(64);
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = 0.5f + static_cast<float>(i) / 64;
  Matrix expected(5, 3 * 64);
  for (int64_t head = 0; head < 3; ++head) {
    RmsNorm(Context(BestIsa()), {.in = x.view().Cols(64 * head, 64),
                                 .weight = {weight.data(), 64},
                                 .eps = 1e-6f,
                                 .out = expected.view().Cols(64 * head, 64)});
  }
  RmsNorm(Context(BestIsa()),
          {.in = x.view(), .weight = {weight.data(), 64}, .eps = 1e-6f, .out = x.view()});
  EXPECT_TRUE(x.SameBits(expected));
}

TEST_F(RowOpsTest, SumAndProductAreExactlyRounded) {
  for (const int64_t width : {1, 17, 576, 40000}) {
    Matrix a(3, width);
    Matrix b(3, width);
    a.FillNormal(1, 1.0f);
    b.FillNormal(2, 1.0f);
    for (const Isa isa : RunnableIsas()) {
      Matrix sum(3, width);
      Matrix scaled(3, width);
      AddRows(Context(isa), {.a = a.view(), .b = b.view(), .out = sum.view()});
      ScaleRows(Context(isa), {.in = a.view(), .factor = 0.3f, .out = scaled.view()});
      EXPECT_TRUE(sum.FenceIntact());
      EXPECT_TRUE(scaled.FenceIntact());
      for (int64_t r = 0; r < 3; ++r) {
        for (int64_t c = 0; c < width; ++c) {
          ASSERT_EQ(sum.view()(r, c), a.view()(r, c) + b.view()(r, c));
          ASSERT_EQ(scaled.view()(r, c), a.view()(r, c) * 0.3f);
        }
      }
    }
  }
}

TEST_F(RowOpsTest, EveryRowGetsTheBias) {
  for (const int64_t width : {1, 15, 16, 17, 576, 40000}) {
    Matrix rows(5, width);
    rows.FillNormal(3, 1.0f);
    std::vector<float> bias(static_cast<size_t>(width));
    std::mt19937 random(4);
    for (float& x : bias) x = std::normal_distribution<float>(0.0f, 3.0f)(random);
    for (const Isa isa : RunnableIsas()) {
      SCOPED_TRACE(testing::Message() << IsaName(isa) << " width " << width);
      Matrix out = rows;
      AddBias(Context(isa), {.bias = {bias.data(), width}, .rows = out.view()});
      EXPECT_TRUE(out.FenceIntact());
      for (int64_t r = 0; r < 5; ++r) {
        for (int64_t c = 0; c < width; ++c) {
          ASSERT_EQ(out.view()(r, c), rows.view()(r, c) + bias[static_cast<size_t>(c)]);
        }
      }
    }
  }
}

// Arguments of all sizes, both signs: from 1e-20 to 1e3, dense where the functions bend.
std::vector<float> Arguments() {
  std::vector<float> x = {0.0f, -0.0f, 0.625f, std::nextafter(0.625f, 1.0f)};
  for (double size = 1e-20; size < 1e3; size *= 1.0009) {
    x.push_back(static_cast<float>(size));
    x.push_back(static_cast<float>(-size));
  }
  for (float value = -30.0f; value < 30.0f; value += 0.0013f) x.push_back(value);
  return x;
}

TEST_F(RowOpsTest, ActivationsAgreeWithTheFormulaOnEveryInstructionSet) {
  const std::vector<float> gate = Arguments();
  const int64_t width = static_cast<int64_t>(gate.size());
  const std::vector<float> up(gate.size(), 1.0f);
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
    std::vector<float> first;
    for (const Isa isa : RunnableIsas()) {
      std::vector<float> out(gate.size());
      GatedActivation(Context(isa), {.gate = {gate.data(), 1, width},
                                     .up = {up.data(), 1, width},
                                     .activation = activation,
                                     .out = {out.data(), 1, width}});
      for (size_t i = 0; i < gate.size(); ++i) {
        const double x = static_cast<double>(gate[i]);
        const double expected =
            activation == Activation::kSilu ? SiluReference(x) : GeluTanhReference(x);
        // Relative, and growing with the exponent of e; results near the smallest number are 0.
        const double exponent = activation == Activation::kSilu
                                    ? 0.0
                                    : std::fabs(x) * (1.6 + 0.08 * x * x) * (x < 0 ? 1.0 : 0.0);
        const double bound = std::fabs(expected) * (4e-7 + 2e-7 * exponent) + 1e-35;
        ASSERT_NEAR(static_cast<double>(out[i]), expected, bound)
            << IsaName(isa) << " x " << gate[i];
      }
      if (first.empty()) first = out;
      EXPECT_EQ(std::memcmp(out.data(), first.data(), out.size() * sizeof(float)), 0)
          << IsaName(isa);
    }
  }
}

TEST_F(RowOpsTest, SoftCapAgreesWithTheFormulaOnEveryInstructionSet) {
  const std::vector<float> in = Arguments();
  const int64_t width = static_cast<int64_t>(in.size());
  for (const float cap : {1.0f, 30.0f, 50.0f}) {
    std::vector<float> first;
    for (const Isa isa : RunnableIsas()) {
      std::vector<float> out(in.size());
      SoftCapRows(Context(isa),
                  {.in = {in.data(), 1, width}, .cap = cap, .out = {out.data(), 1, width}});
      for (size_t i = 0; i < in.size(); ++i) {
        const double expected =
            SoftCapReference(static_cast<double>(in[i]), static_cast<double>(cap));
        ASSERT_NEAR(static_cast<double>(out[i]), expected, std::fabs(expected) * 4e-7)
            << IsaName(isa) << " x " << in[i] << " cap " << cap;
      }
      if (first.empty()) first = out;
      EXPECT_EQ(std::memcmp(out.data(), first.data(), out.size() * sizeof(float)), 0)
          << IsaName(isa);
    }
  }
}

TEST_F(RowOpsTest, GateTimesUpRoundsTheActivationFirst) {
  Matrix gate(4, 100);
  Matrix up(4, 100);
  gate.FillNormal(5, 2.0f);
  up.FillNormal(6, 2.0f);
  std::vector<float> ones(100, 1.0f);
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
    Matrix out(4, 100);
    GatedActivation(
        Context(BestIsa()),
        {.gate = gate.view(), .up = up.view(), .activation = activation, .out = out.view()});
    EXPECT_TRUE(out.FenceIntact());
    for (int64_t r = 0; r < 4; ++r) {
      std::vector<float> act(100);
      GatedActivation(Context(BestIsa()), {.gate = {gate.view().row(r), 1, 100},
                                           .up = {ones.data(), 1, 100},
                                           .activation = activation,
                                           .out = {act.data(), 1, 100}});
      for (int64_t c = 0; c < 100; ++c) {
        ASSERT_EQ(out.view()(r, c), act[static_cast<size_t>(c)] * up.view()(r, c));
      }
    }
  }
}

TEST_F(RowOpsTest, NotANumberStaysInItsLane) {
  for (const Isa isa : RunnableIsas()) {
    std::vector<float> in(40, 1.0f);
    in[7] = kNaN;
    in[20] = kInfinity;
    const std::vector<float> ones(40, 1.0f);
    std::vector<float> silu(40);
    std::vector<float> gelu(40);
    std::vector<float> capped(40);
    GatedActivation(Context(isa), {.gate = {in.data(), 1, 40},
                                   .up = {ones.data(), 1, 40},
                                   .activation = Activation::kSilu,
                                   .out = {silu.data(), 1, 40}});
    GatedActivation(Context(isa), {.gate = {in.data(), 1, 40},
                                   .up = {ones.data(), 1, 40},
                                   .activation = Activation::kGeluTanh,
                                   .out = {gelu.data(), 1, 40}});
    SoftCapRows(Context(isa),
                {.in = {in.data(), 1, 40}, .cap = 2.0f, .out = {capped.data(), 1, 40}});
    for (size_t i = 0; i < 40; ++i) {
      EXPECT_EQ(std::isnan(silu[i]), i == 7) << IsaName(isa) << " " << i;
      EXPECT_EQ(std::isnan(gelu[i]), i == 7) << IsaName(isa) << " " << i;
      EXPECT_EQ(std::isnan(capped[i]), i == 7) << IsaName(isa) << " " << i;
    }
    EXPECT_EQ(silu[20], kInfinity);
    EXPECT_EQ(gelu[20], kInfinity);
    EXPECT_EQ(capped[20], 2.0f);
  }
}

}  // namespace
}  // namespace baton
