// Random shapes for what works row by row: rope, writing to the cache, norms and activations
// (test_random_shapes.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/kv_write.h"
#include "kernels/rope.h"
#include "kernels/rope_ref.h"
#include "kernels/row_ops.h"
#include "kernels/row_ops_ref.h"
#include "kernels/test_attention_problem.h"
#include "kernels/test_linear_problem.h"
#include "kernels/test_random_shapes.h"
#include "kernels/test_sparse_problem.h"

namespace baton {
namespace {

class RandomRowShapesTest : public RandomShapesTest {
 protected:
  void Run(uint32_t count);
  void RopeOfShape(Draw& draw);
  void KvWriteShape(Draw& draw);
  void RowOpsShape(Draw& draw);
};

void RandomRowShapesTest::RopeOfShape(Draw& draw) {
  const int head_dim = 16 * static_cast<int>(draw.Size(16));
  const int rotary_dim =
      draw.Once(2) ? head_dim : 2 * static_cast<int>(draw.Between(1, head_dim / 2));
  const double base = draw.Of<double>({1e4, 1e5, 5e5, 1e6});
  const RopeLayout layout = draw.Once(2) ? RopeLayout::kHalves : RopeLayout::kInterleaved;
  const int64_t num_heads = draw.Size(5);
  const int64_t num_rows = draw.Size(20);
  SCOPED_TRACE(testing::Message() << "rope of " << head_dim << " rotary " << rotary_dim << " base "
                                  << base << " halves " << (layout == RopeLayout::kHalves)
                                  << " heads " << num_heads << " rows " << num_rows);
  const auto table = RopeTable::Make(
      {.head_dim = head_dim, .rotary_dim = rotary_dim, .base = base, .layout = layout});
  ASSERT_TRUE(table);
  std::vector<long double> frequencies;
  for (int i = 0; i < rotary_dim / 2; ++i) {
    frequencies.push_back(powl(static_cast<long double>(base), -2.0L * i / rotary_dim));
  }
  std::vector<int64_t> positions;
  for (int64_t r = 0; r < num_rows; ++r) positions.push_back(draw.Size(1 << 20) - 1);
  const int64_t stride = num_heads * head_dim + draw.Between(0, 5);
  const std::vector<float> x = RandomInputRows(num_rows, stride, draw.random());
  std::vector<float> first;
  for (const Isa isa : RunnableIsas()) {
    std::vector<float> cos_sin(static_cast<size_t>(num_rows * table->RowFloats()));
    const View2<float> factors = {cos_sin.data(), num_rows, table->RowFloats()};
    const KernelContext context = Context(draw, isa);
    ComputeRopeRows(context, {.table = *table, .positions = positions, .cos_sin = factors});
    std::vector<float> out = x;
    ApplyRope(context, {.table = *table,
                        .cos_sin = factors,
                        .x = {out.data(), num_rows, num_heads * head_dim, stride}});
    if (isa == Isa::kPortable) first = out;
    ASSERT_TRUE(SameFloats(out, first)) << isa;
  }
  for (int64_t r = 0; r < num_rows; ++r) {
    for (int64_t i = 0; i < stride; i += head_dim) {
      const int64_t at = r * stride + i;
      if (i == num_heads * head_dim) {  // beside the heads
        ASSERT_EQ(std::memcmp(&first[static_cast<size_t>(at)], &x[static_cast<size_t>(at)],
                              static_cast<size_t>(stride - i) * sizeof(float)),
                  0);
        break;
      }
      const auto begin = x.begin() + at;
      const std::vector<double> want =
          RopeReference({.x = {begin, begin + head_dim},
                         .rotary_dim = rotary_dim,
                         .interleaved = layout == RopeLayout::kInterleaved,
                         .position = static_cast<long double>(positions[static_cast<size_t>(r)]),
                         .frequencies = frequencies,
                         .attention_factor = 1});
      double largest = 0;
      for (int j = 0; j < head_dim; ++j) {
        largest = std::max(largest, std::fabs(static_cast<double>(begin[j])));
      }
      for (int j = 0; j < head_dim; ++j) {
        ASSERT_NEAR(static_cast<double>(first[static_cast<size_t>(at + j)]),
                    want[static_cast<size_t>(j)], 4 * 0x1p-24 * largest)
            << "row " << r << " component " << i + j;
      }
    }
  }
}

// What a record was made of: tokens `cols` floats apart.
struct WrittenRows {
  const float* k;
  const float* v;
  int64_t cols;
  int64_t tokens;
};

// A record of KvType::kF16 in memory that was 0x5a: what was stored, by the layout; and its means.
void CheckF16Record(const KvRecord& record, const std::byte* at, const WrittenRows& rows) {
  const auto half = [&](size_t index) {
    uint16_t bits;
    std::memcpy(&bits, at + 2 * index, sizeof(bits));
    return bits;
  };
  for (int c = 0; c < record.head_dim; ++c) {
    float key_sum = 0.0f;
    float value_sum = 0.0f;
    for (int t = 0; t < 64; ++t) {
      const int64_t i = t * rows.cols + c;
      const uint16_t key = half(record.KeyIndex(c, t));
      const uint16_t value = half(record.ValueIndex(c, t));
      ASSERT_EQ(key, t < rows.tokens ? FloatToHalf(rows.k[i]) : 0x5a5a);
      ASSERT_EQ(value, t < rows.tokens ? FloatToHalf(rows.v[i]) : 0x5a5a);
      key_sum += HalfToFloat(key);
      value_sum += HalfToFloat(value);
    }
    if (rows.tokens < 64) continue;
    float means[2];
    const std::byte* statistics = at + record.StatisticsOffsetBytes();
    std::memcpy(&means[0], statistics + 4 * c, sizeof(float));
    std::memcpy(&means[1], statistics + 4 * (record.head_dim + c), sizeof(float));
    ASSERT_EQ(means[0], key_sum / 64.0f) << "component " << c;
    ASSERT_EQ(means[1], value_sum / 64.0f) << "component " << c;
  }
}

// Pieces of a sequence, written one after the other.
void RandomRowShapesTest::KvWriteShape(Draw& draw) {
  const int head_dim = 16 * static_cast<int>(draw.Size(16));
  const int num_heads = static_cast<int>(draw.Size(4));
  const int64_t tokens = draw.Size(200);
  const int64_t piece = draw.Size(tokens);
  const KvRecord record = {.head_dim = head_dim, .type = draw.Once(3) ? KvType::kQ8 : KvType::kF16};
  const size_t offset = 64 * static_cast<size_t>(draw.Between(0, 3));
  const size_t block_bytes = offset + static_cast<size_t>(num_heads) * record.Bytes();
  const size_t num_blocks = static_cast<size_t>((tokens + 63) / 64);
  SCOPED_TRACE(testing::Message() << "kv_write of " << head_dim << " heads " << num_heads
                                  << " tokens " << tokens << " by " << piece << " type "
                                  << KvTypeName(record.type));
  const int64_t cols = int64_t{num_heads} * head_dim;
  const std::vector<float> k = RandomInputRows(tokens, cols, draw.random());
  const std::vector<float> v = RandomInputRows(tokens, cols, draw.random());
  std::vector<std::byte> first;
  for (const Isa isa : RunnableIsas()) {
    const auto memory = *AlignedBuffer<std::byte>::Allocate(num_blocks * block_bytes);
    std::memset(memory.data(), 0x5a, memory.size());
    std::vector<std::byte*> blocks;
    for (size_t b = 0; b < num_blocks; ++b) blocks.push_back(memory.data() + b * block_bytes);
    for (int64_t at = 0; at < tokens; at += piece) {
      const KvWriteSequence sequence = {.first_row = at,
                                        .num_rows = std::min(piece, tokens - at),
                                        .first_position = at,
                                        .blocks = blocks.data()};
      WriteKv(Context(draw, isa), {.k = {k.data(), tokens, cols},
                                   .v = {v.data(), tokens, cols},
                                   .target = {.sequences = {&sequence, 1},
                                              .num_kv_heads = num_heads,
                                              .head_dim = head_dim,
                                              .record_offset = offset,
                                              .head_stride = record.Bytes(),
                                              .kv_type = record.type}});
    }
    if (isa == Isa::kPortable) first.assign(memory.data(), memory.data() + memory.size());
    ASSERT_EQ(std::memcmp(memory.data(), first.data(), first.size()), 0) << isa;
  }
  if (record.type == KvType::kQ8) return;  // kv_write_q8_test.cc
  for (size_t b = 0; b < num_blocks; ++b) {
    for (int h = 0; h < num_heads; ++h) {
      const size_t at = b * block_bytes + offset + static_cast<size_t>(h) * record.Bytes();
      const int64_t from = 64 * static_cast<int64_t>(b) * cols + int64_t{h} * head_dim;
      CheckF16Record(record, first.data() + at,
                     {.k = k.data() + from,
                      .v = v.data() + from,
                      .cols = cols,
                      .tokens = std::min<int64_t>(64, tokens - 64 * static_cast<int64_t>(b))});
    }
  }
}

// Norms, sums, activations and soft caps of rows.
void RandomRowShapesTest::RowOpsShape(Draw& draw) {
  const int64_t width = draw.Size(3000);
  const int64_t rows = draw.Size(7);
  const float cap = static_cast<float>(draw.Between(1, 60));
  SCOPED_TRACE(testing::Message() << "rows " << rows << " of " << width << " cap " << cap);
  std::vector<float> a = RandomInputRows(rows, width, draw.random());
  std::vector<float> b = RandomInputRows(rows, width, draw.random());
  const std::vector<float> weight = RandomInputRows(1, width, draw.random());
  const View2<const float> in_a = {a.data(), rows, width};
  const View2<const float> in_b = {b.data(), rows, width};
  enum { kNorm, kSum, kScaled, kSilu, kGelu, kCapped, kCount };
  std::array<std::vector<float>, kCount> first;
  for (const Isa isa : RunnableIsas()) {
    const KernelContext context = Context(draw, isa);
    std::array<std::vector<float>, kCount> got;
    for (std::vector<float>& out : got) out.resize(a.size());
    const auto view = [&](int i) {
      return View2<float>{got[static_cast<size_t>(i)].data(), rows, width};
    };
    RmsNorm(context,
            {.in = in_a, .weight = {weight.data(), width}, .eps = 1e-5f, .out = view(kNorm)});
    AddRows(context, {.a = in_a, .b = in_b, .out = view(kSum)});
    ScaleRows(context, {.in = in_a, .factor = 0.3f, .out = view(kScaled)});
    GatedActivation(
        context, {.gate = in_a, .up = in_b, .activation = Activation::kSilu, .out = view(kSilu)});
    GatedActivation(
        context,
        {.gate = in_a, .up = in_b, .activation = Activation::kGeluTanh, .out = view(kGelu)});
    SoftCapRows(context, {.in = in_a, .cap = cap, .out = view(kCapped)});
    if (isa == Isa::kPortable) first = got;
    for (size_t i = 0; i < kCount; ++i) {
      ASSERT_TRUE(SameFloats(got[i], first[i])) << isa << " operation " << i;
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    const auto begin = a.begin() + r * width;
    const std::vector<double> norm =
        RmsNormReference({begin, begin + width}, weight, static_cast<double>(1e-5f));
    for (int64_t c = 0; c < width; ++c) {
      const size_t i = static_cast<size_t>(r * width + c);
      const double x = static_cast<double>(a[i]);
      const double up = static_cast<double>(b[i]);
      const double want = norm[static_cast<size_t>(c)];
      ASSERT_NEAR(static_cast<double>(first[kNorm][i]), want,
                  std::fabs(want) * 0x1p-24 * (static_cast<double>(width) / 128 + 10));
      ASSERT_EQ(first[kSum][i], a[i] + b[i]);
      ASSERT_EQ(first[kScaled][i], a[i] * 0.3f);
      // The bounds of row_ops_test.cc, and the product's rounding.
      const double silu = SiluReference(x) * up;
      ASSERT_NEAR(static_cast<double>(first[kSilu][i]), silu, std::fabs(silu) * 5e-7 + 1e-33);
      const double gelu = GeluTanhReference(x) * up;
      const double exponent = x < 0 ? -x * (1.6 + 0.08 * x * x) : 0.0;
      ASSERT_NEAR(static_cast<double>(first[kGelu][i]), gelu,
                  std::fabs(gelu) * (5e-7 + 2e-7 * exponent) + 1e-33)
          << x;
      const double capped = SoftCapReference(x, static_cast<double>(cap));
      ASSERT_NEAR(static_cast<double>(first[kCapped][i]), capped, std::fabs(capped) * 4e-7);
    }
  }
}

void RandomRowShapesTest::Run(uint32_t count) {
  ForShapes(count, [&](Draw& draw, uint32_t number) {
    switch (number % 3) {
      case 0:
        return RopeOfShape(draw);
      case 1:
        return KvWriteShape(draw);
      default:
        return RowOpsShape(draw);
    }
  });
}

TEST_F(RandomRowShapesTest, AreRight) {
  Run(45);
}

// tests/nightly --only shapes
TEST_F(RandomRowShapesTest, DISABLED_FifteenHundredAreRight) {
  Run(1500);
}

}  // namespace
}  // namespace baton
