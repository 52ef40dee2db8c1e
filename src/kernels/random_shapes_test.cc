// Random shapes for every kernel: each runs on all instruction sets and is compared with its
// reference. A shape is a function of its number, which a failure prints. ./check runs a few of
// them, tests/nightly thousands, with instrumented kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/attention_ref.h"
#include "kernels/isa.h"
#include "kernels/kv_write.h"
#include "kernels/rope.h"
#include "kernels/rope_ref.h"
#include "kernels/row_ops.h"
#include "kernels/row_ops_ref.h"
#include "kernels/test_attention_problem.h"
#include "kernels/test_linear_problem.h"
#include "kernels/test_sparse_problem.h"

namespace baton {
namespace {

constexpr DType kTypes[] = {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0,
                            DType::kQ2_K, DType::kQ3_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K,
                            DType::kF16,  DType::kBF16, DType::kF32};

// What a shape is drawn from.
class Draw {
 public:
  explicit Draw(uint32_t seed) : random_(seed) {}
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint32_t>(high - low + 1));
  }
  bool Once(int in) { return Between(1, in) == 1; }
  // Of 1 .. high, small numbers as often as large ones.
  int64_t Size(int64_t high) {
    const int bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(high)));
    return std::min(high, Between(1, int64_t{1} << Between(0, bits)));
  }
  template <typename T, size_t n>
  T Of(const T (&choices)[n]) {
    return choices[static_cast<size_t>(Between(0, static_cast<int64_t>(n) - 1))];
  }
  uint32_t Seed() { return static_cast<uint32_t>(random_()); }
  std::mt19937& random() { return random_; }

 private:
  std::mt19937 random_;
};

class RandomShapesTest : public testing::Test {
 protected:
  RandomShapesTest() {
    for (int threads = 1; threads <= 3; ++threads) pools_.push_back(*ThreadPool::Make(threads));
  }

  void Run(uint32_t first, uint32_t count) {
    for (uint32_t seed = first; seed < first + count; ++seed) {
      SCOPED_TRACE("shape " + std::to_string(seed));
      Draw draw(seed);
      switch (seed % 10) {
        case 0:
        case 1:
        case 2:
        case 3:
          LinearShape(draw);
          break;
        case 4:
        case 5:
          AttentionOfShape(draw);
          break;
        case 6:
          SparseShape(draw);
          break;
        case 7:
          RopeOfShape(draw);
          break;
        case 8:
          KvWriteShape(draw);
          break;
        default:
          RowOpsShape(draw);
      }
      if (HasFailure()) return;
    }
  }

 private:
  KernelContext Context(Draw& draw, Isa isa) {
    return {.table = KernelsFor(isa), .pool = *pools_[static_cast<size_t>(draw.Between(0, 2))]};
  }

  void LinearShape(Draw& draw);
  void AttentionOfShape(Draw& draw);
  void SparseShape(Draw& draw);
  void RopeOfShape(Draw& draw);
  void KvWriteShape(Draw& draw);
  void RowOpsShape(Draw& draw);

  std::vector<std::unique_ptr<ThreadPool>> pools_;
};

// Packing, quantization of inputs, the product, and decoding of rows.
void RandomShapesTest::LinearShape(Draw& draw) {
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
  const Result<WeightMatrix> weights =
      WeightMatrix::Pack(matrix.source(), *pools_[static_cast<size_t>(draw.Between(0, 2))]);
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

AttentionShape DrawAttentionShape(Draw& draw, int max_head_dim) {
  const int kv_heads = static_cast<int>(draw.Size(3));
  return {.num_heads = kv_heads * static_cast<int>(draw.Size(9)),
          .num_kv_heads = kv_heads,
          .head_dim = 16 * static_cast<int>(draw.Size(max_head_dim / 16))};
}

// Prefill and decode of rows anywhere in a sequence.
void RandomShapesTest::AttentionOfShape(Draw& draw) {
  const AttentionShape shape = DrawAttentionShape(draw, 256);
  const int64_t tokens = draw.Once(8) ? draw.Between(1000, 1200) : draw.Size(300);
  AttentionProblem problem({.shape = shape, .num_tokens = tokens, .seed = draw.Seed()});
  AttentionLayer layer = problem.Layer();
  if (draw.Once(3)) layer.sliding_window = draw.Size(tokens + 10);
  if (draw.Once(3)) layer.soft_cap = static_cast<float>(draw.Between(1, 60));
  const int64_t count = std::min(tokens, draw.Size(80));
  const RowRange rows = {.first = draw.Between(0, tokens - count), .count = count};
  SCOPED_TRACE(testing::Message() << "attention heads " << shape.num_heads << '/'
                                  << shape.num_kv_heads << " of " << shape.head_dim << " tokens "
                                  << tokens << " window " << layer.sliding_window << " cap "
                                  << layer.soft_cap << " rows " << rows.first << " + " << count);
  std::vector<float> first;
  for (const Isa isa : RunnableIsas()) {
    const std::vector<float> out = RunPrefill(Context(draw, isa), problem, layer, rows);
    if (isa == Isa::kPortable) first = out;
    ASSERT_TRUE(SameBits(out, first)) << "prefill " << isa;
    const RowRange few = {.first = rows.first, .count = std::min<int64_t>(count, draw.Size(8))};
    const std::vector<float> want(first.begin(), first.begin() + few.count * problem.q_cols());
    ASSERT_TRUE(SameBits(RunDecode(Context(draw, isa), problem, layer, few), want))
        << "decode " << isa;
  }
  for (int i = 0; i < 4; ++i) {
    const int64_t row = draw.Between(0, count - 1);
    const int head = static_cast<int>(draw.Between(0, shape.num_heads - 1));
    const int64_t position = rows.first + row;
    const std::vector<float> keys = problem.Gather(problem.keys(), head / shape.GroupSize());
    const std::vector<float> values = problem.Gather(problem.values(), head / shape.GroupSize());
    const int64_t window = layer.sliding_window == 0 ? tokens : layer.sliding_window;
    const int64_t column = int64_t{head} * shape.head_dim;
    const AttentionReference reference =
        AttendReference({.q = problem.q() + position * problem.q_cols() + column,
                         .keys = keys.data(),
                         .values = values.data(),
                         .first_key = std::max<int64_t>(0, position - window + 1),
                         .last_key = position,
                         .head_dim = shape.head_dim,
                         .scale = static_cast<double>(layer.scale),
                         .soft_cap = static_cast<double>(layer.soft_cap)});
    // The bound of attention_test.cc: errors of logits move every weight, sums add one rounding per
    // key of a segment.
    constexpr double kUnit = 0x1p-24;
    const double logit_error =
        kUnit * (shape.head_dim * reference.largest_terms + 4 * reference.largest_logit);
    const double bound =
        reference.largest_value * (2 * logit_error + 1e-6 + kUnit * (kSegmentTokens + 64));
    for (int c = 0; c < shape.head_dim; ++c) {
      ASSERT_NEAR(
          static_cast<double>(first[static_cast<size_t>(row * problem.q_cols() + column + c)]),
          reference.out[static_cast<size_t>(c)], bound)
          << "position " << position << " head " << head << " component " << c;
    }
  }
}

SparsePolicy DrawPolicy(Draw& draw) {
  SparsePolicy policy = {.alpha = static_cast<float>(draw.Between(1, 10)) / 10.0f,
                         .share = static_cast<double>(draw.Between(1, 10)) / 10,
                         .min_blocks = static_cast<int>(draw.Size(3)),
                         .num_estimates = static_cast<int>(draw.Between(2, 8)),
                         .block_tokens = draw.Once(2) ? 64 : 128,
                         .sink_tokens = draw.Between(0, 200),
                         .window_tokens = draw.Between(1, 200),
                         .last_tiles = draw.Between(0, 2),
                         .has_correction = !draw.Once(4),
                         .has_sparse_windows = true};
  if (draw.Once(3)) policy.tile_positions = 1 << draw.Between(4, 8);
  if (draw.Once(2)) policy.estimate = BlockEstimate::kFar;
  policy.rule = draw.Of<SelectionRule>(
      {SelectionRule::kThreshold, SelectionRule::kShare, SelectionRule::kNone});
  if (draw.Once(4)) policy.energy = BlockEnergy::kTrue;
  return policy;
}

// Selections by the reference's wherever rounding cannot decide, and rows by what was selected.
void RandomShapesTest::SparseShape(Draw& draw) {
  const AttentionShape shape = DrawAttentionShape(draw, 96);
  const int64_t tokens = draw.Between(1, 700);
  const SparseProblem problem(
      MakeSparseInputs({.shape = shape, .num_tokens = tokens, .seed = draw.Seed()}));
  AttentionLayer layer = problem.Layer();
  if (draw.Once(3)) layer.sliding_window = draw.Size(tokens);
  if (draw.Once(4)) layer.soft_cap = static_cast<float>(draw.Between(3, 60));
  const SparsePolicy policy = DrawPolicy(draw);
  const int64_t first_row = draw.Once(2) ? 0 : draw.Between(0, tokens - 1);
  const SparseRows rows = {.first = first_row, .count = tokens - first_row, .prompt = tokens};
  SCOPED_TRACE(testing::Message() << "sparse heads " << shape.num_heads << '/' << shape.num_kv_heads
                                  << " of " << shape.head_dim << " tokens " << tokens << " from "
                                  << first_row << " window " << layer.sliding_window << " cap "
                                  << layer.soft_cap << ' ' << PolicyText(policy));
  ASSERT_TRUE(ValidatePolicy(policy));
  SparseRun first;
  for (const Isa isa : RunnableIsas()) {
    SparseRun run = RunSparse(Context(draw, isa), problem, policy, layer, rows);
    if (isa == Isa::kPortable) first = run;
    ASSERT_TRUE(SameFloats(run.out, first.out)) << isa;
    ASSERT_TRUE(SameFloats(run.lse, first.lse)) << isa;
    ASSERT_EQ(run.selections.size(), first.selections.size());
    for (size_t i = 0; i < run.selections.size(); ++i) {
      ASSERT_TRUE(run.selections[i].SameAs(first.selections[i])) << isa << " selection " << i;
    }
  }
  SparseReferenceArgs args = problem.Reference(layer, rows.first, rows.count);
  ApplyPolicy(policy, args);
  const SparseReference reference(args);
  const std::vector<ReferenceTile> want = reference.Select();
  ASSERT_EQ(first.selections.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    const KeptSelection& got = first.selections[i];
    ASSERT_EQ(got.about.is_dense, want[i].dense);
    if (want[i].margin < 1e-4) continue;
    ASSERT_EQ(got.kept, want[i].kept) << "tile " << want[i].tile << " margin " << want[i].margin;
    if (policy.has_correction) {
      ASSERT_EQ(got.corrected, want[i].corrected) << "tile " << want[i].tile;
    }
  }
  for (int i = 0; i < 4; ++i) {
    const size_t at = static_cast<size_t>(draw.Between(0, static_cast<int64_t>(want.size()) - 1));
    const KeptSelection& got = first.selections[at];
    const int64_t position =
        draw.Between(got.about.rows.first_position, got.about.rows.last_position);
    const int head = got.about.kv_head * shape.GroupSize() +
                     static_cast<int>(draw.Between(0, shape.GroupSize() - 1));
    const ReferenceRow row = reference.Attend(position, head, got.kept, got.corrected);
    const int64_t index = (position - rows.first) * shape.num_heads + head;
    for (int c = 0; c < shape.head_dim; ++c) {
      ASSERT_NEAR(static_cast<double>(first.out[static_cast<size_t>(index * shape.head_dim + c)]),
                  row.out[static_cast<size_t>(c)], 5e-5)
          << "position " << position << " head " << head;
    }
  }
}

void RandomShapesTest::RopeOfShape(Draw& draw) {
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

// Pieces of a sequence, written one after the other.
void RandomShapesTest::KvWriteShape(Draw& draw) {
  const int head_dim = 16 * static_cast<int>(draw.Size(16));
  const int num_heads = static_cast<int>(draw.Size(4));
  const int64_t tokens = draw.Size(200);
  const int64_t piece = draw.Size(tokens);
  const KvRecord record{head_dim};
  const size_t offset = 64 * static_cast<size_t>(draw.Between(0, 3));
  const size_t block_bytes = offset + static_cast<size_t>(num_heads) * record.Bytes();
  const size_t num_blocks = static_cast<size_t>((tokens + 63) / 64);
  SCOPED_TRACE(testing::Message() << "kv_write of " << head_dim << " heads " << num_heads
                                  << " tokens " << tokens << " by " << piece);
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
                                              .head_stride = record.Bytes()}});
    }
    if (isa == Isa::kPortable) first.assign(memory.data(), memory.data() + memory.size());
    ASSERT_EQ(std::memcmp(memory.data(), first.data(), first.size()), 0) << isa;
  }
  // What was stored, by the layout; and its means.
  for (size_t b = 0; b < num_blocks; ++b) {
    for (int h = 0; h < num_heads; ++h) {
      const std::byte* at =
          first.data() + b * block_bytes + offset + static_cast<size_t>(h) * record.Bytes();
      const auto half = [&](int64_t index) {
        uint16_t bits;
        std::memcpy(&bits, at + 2 * index, sizeof(bits));
        return bits;
      };
      const int64_t stored = std::min<int64_t>(64, tokens - 64 * static_cast<int64_t>(b));
      for (int c = 0; c < head_dim; ++c) {
        float key_sum = 0.0f;
        float value_sum = 0.0f;
        for (int t = 0; t < 64; ++t) {
          const int64_t i = (64 * static_cast<int64_t>(b) + t) * cols + int64_t{h} * head_dim + c;
          const uint16_t key = half(record.KeyIndex(c, t));
          const uint16_t value = half(record.ValueIndex(c, t));
          ASSERT_EQ(key, t < stored ? FloatToHalf(k[static_cast<size_t>(i)]) : 0x5a5a);
          ASSERT_EQ(value, t < stored ? FloatToHalf(v[static_cast<size_t>(i)]) : 0x5a5a);
          key_sum += HalfToFloat(key);
          value_sum += HalfToFloat(value);
        }
        if (stored < 64) continue;
        float means[2];
        const std::byte* statistics = at + record.StatisticsOffsetBytes();
        std::memcpy(&means[0], statistics + 4 * c, sizeof(float));
        std::memcpy(&means[1], statistics + 4 * (head_dim + c), sizeof(float));
        ASSERT_EQ(means[0], key_sum / 64.0f) << "component " << c;
        ASSERT_EQ(means[1], value_sum / 64.0f) << "component " << c;
      }
    }
  }
}

// Norms, sums, activations and soft caps of rows.
void RandomShapesTest::RowOpsShape(Draw& draw) {
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

TEST_F(RandomShapesTest, AreRight) {
  Run(0, 150);
}

// tests/nightly --only shapes
TEST_F(RandomShapesTest, DISABLED_FiveThousandAreRight) {
  Run(0, 5000);
}

}  // namespace
}  // namespace baton
