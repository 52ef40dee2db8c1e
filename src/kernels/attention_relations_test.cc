// Relations that no reference can fake: what must not change a bit of a row, and what must.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/isa.h"
#include "kernels/test_attention_problem.h"

namespace baton {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr AttentionShape kShape = {.num_heads = 6, .num_kv_heads = 2, .head_dim = 64};

class AttentionRelationsTest : public testing::TestWithParam<KvType> {
 protected:
  KernelContext Context() { return {.table = KernelsFor(BestIsa()), .pool = *pool_}; }

  // One row of a result of all rows from 0 on.
  static std::vector<float> RowOf(const std::vector<float>& all, int64_t row, int64_t cols) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(row * cols);
    return {begin, begin + static_cast<std::ptrdiff_t>(cols)};
  }

  std::unique_ptr<ThreadPool> pool_ = *ThreadPool::Make(2);
};

TEST_P(AttentionRelationsTest, ChunkedEqualsWhole) {
  AttentionProblem problem({.shape = kShape, .num_tokens = 1130, .seed = 3, .kv_type = GetParam()});
  for (const int64_t window : {0, 100}) {
    AttentionLayer layer = problem.Layer();
    layer.sliding_window = window;
    const std::vector<float> whole =
        RunPrefill(Context(), problem, layer, {.first = 0, .count = problem.num_tokens()});
    for (const int64_t chunk : {1, 7, 64, 100, 512}) {
      std::vector<float> chunked;
      for (int64_t first = 0; first < problem.num_tokens(); first += chunk) {
        const RowRange rows = {.first = first,
                               .count = std::min(chunk, problem.num_tokens() - first)};
        const std::vector<float> part = RunPrefill(Context(), problem, layer, rows);
        chunked.insert(chunked.end(), part.begin(), part.end());
      }
      EXPECT_TRUE(SameBits(chunked, whole)) << "chunk " << chunk << " window " << window;
    }
  }
}

TEST_P(AttentionRelationsTest, SeveralRowsOfDecodeEqualPrefill) {
  AttentionProblem problem({.shape = kShape, .num_tokens = 2100, .seed = 4, .kv_type = GetParam()});
  for (const int64_t window : {0, 8, 1500}) {
    AttentionLayer layer = problem.Layer();
    layer.sliding_window = window;
    for (const int64_t first : {0, 50, 1000, 1023, 2047, 2080}) {
      for (const int64_t count : {1, 2, 5, 20}) {
        const RowRange rows = {.first = first, .count = count};
        EXPECT_TRUE(SameBits(RunDecode(Context(), problem, layer, rows),
                             RunPrefill(Context(), problem, layer, rows)))
            << "first " << first << " count " << count << " window " << window;
      }
    }
  }
}

TEST_P(AttentionRelationsTest, ThreadsChangeNothing) {
  AttentionProblem problem({.shape = kShape, .num_tokens = 1500, .seed = 5, .kv_type = GetParam()});
  const RowRange rows = {.first = 1100, .count = 400};
  const RowRange last = {.first = 1498, .count = 2};
  std::vector<std::vector<float>> prefills;
  std::vector<std::vector<float>> decodes;
  for (const int num_threads : {1, 2, 3}) {
    const auto pool = *ThreadPool::Make(num_threads);
    const KernelContext context = {.table = KernelsFor(BestIsa()), .pool = *pool};
    prefills.push_back(RunPrefill(context, problem, problem.Layer(), rows));
    decodes.push_back(RunDecode(context, problem, problem.Layer(), last));
  }
  for (size_t i = 1; i < prefills.size(); ++i) {
    EXPECT_TRUE(SameBits(prefills[i], prefills[0])) << i + 1 << " threads";
    EXPECT_TRUE(SameBits(decodes[i], decodes[0])) << i + 1 << " threads";
  }
}

// Few rows are shared out in tiles of any size, or by segments of their past, as it suits the
// number of threads.
TEST_P(AttentionRelationsTest, ThreadsChangeNothingOfFewRows) {
  AttentionProblem problem(
      {.shape = kShape, .num_tokens = 5000, .seed = 15, .kv_type = GetParam()});
  const auto one = *ThreadPool::Make(1);
  for (const int64_t window : {0, 700}) {
    AttentionLayer layer = problem.Layer();
    layer.sliding_window = window;
    for (const int64_t count : {2, 3, 10, 17, 40, 64, 65}) {
      for (const int64_t end : {int64_t{90}, int64_t{1030}, int64_t{5000}}) {
        const RowRange rows = {.first = end - count, .count = count};
        const std::vector<float> want =
            RunPrefill({.table = KernelsFor(BestIsa()), .pool = *one}, problem, layer, rows);
        for (const int num_threads : {2, 3, 5}) {
          const auto pool = *ThreadPool::Make(num_threads);
          EXPECT_TRUE(SameBits(
              RunPrefill({.table = KernelsFor(BestIsa()), .pool = *pool}, problem, layer, rows),
              want))
              << count << " rows to " << end << ", window " << window << ", " << num_threads
              << " threads";
        }
      }
    }
  }
}

TEST_P(AttentionRelationsTest, AddressesOfBlocksChangeNothing) {
  AttentionProblem problem({.shape = kShape, .num_tokens = 1500, .seed = 6, .kv_type = GetParam()});
  const RowRange rows = {.first = 1400, .count = 100};
  const RowRange last = {.first = 1499, .count = 1};
  const std::vector<float> prefill = RunPrefill(Context(), problem, problem.Layer(), rows);
  const std::vector<float> decode = RunDecode(Context(), problem, problem.Layer(), last);
  std::vector<size_t> order(24);
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 random(6);
  for (int repeat = 0; repeat < 3; ++repeat) {
    std::shuffle(order.begin(), order.end(), random);
    problem.PlaceBlocks(order);
    EXPECT_TRUE(SameBits(RunPrefill(Context(), problem, problem.Layer(), rows), prefill));
    EXPECT_TRUE(SameBits(RunDecode(Context(), problem, problem.Layer(), last), decode));
  }
}

TEST_P(AttentionRelationsTest, LaterTokensChangeNothingEvenIfNotANumber) {
  // Rows before the change, in one tile with rows after it.
  for (const int64_t changed : {1, 5, 63, 64, 100, 1024, 1030}) {
    AttentionProblem problem(
        {.shape = kShape, .num_tokens = 1100, .seed = 7, .kv_type = GetParam()});
    const RowRange all = {.first = 0, .count = problem.num_tokens()};
    const std::vector<float> before = RunPrefill(Context(), problem, problem.Layer(), all);
    for (int h = 0; h < kShape.num_kv_heads; ++h) {
      std::fill_n(problem.Key(changed, h), kShape.head_dim, kNaN);
      std::fill_n(problem.Value(changed, h), kShape.head_dim, kNaN);
      problem.StoreToken(changed, h);
    }
    const std::vector<float> after = RunPrefill(Context(), problem, problem.Layer(), all);
    const size_t earlier = static_cast<size_t>(changed * problem.q_cols());
    EXPECT_EQ(std::memcmp(before.data(), after.data(), earlier * sizeof(float)), 0)
        << "token " << changed;
    EXPECT_TRUE(std::isnan(after[earlier])) << "token " << changed;
    const std::vector<float> decode =
        RunDecode(Context(), problem, problem.Layer(), {.first = changed - 1, .count = 1});
    EXPECT_TRUE(SameBits(decode, RowOf(before, changed - 1, problem.q_cols())));
  }
}

TEST_P(AttentionRelationsTest, NeighboursInATileChangeNothing) {
  AttentionProblem problem({.shape = kShape, .num_tokens = 300, .seed = 8, .kv_type = GetParam()});
  const RowRange all = {.first = 0, .count = problem.num_tokens()};
  const std::vector<float> before = RunPrefill(Context(), problem, problem.Layer(), all);
  // Every third query becomes huge or not a number.
  for (int64_t row = 0; row < problem.num_tokens(); row += 3) {
    float* q = problem.q() + row * problem.q_cols();
    for (int64_t c = 0; c < problem.q_cols(); ++c) q[c] = row % 2 == 0 ? kNaN : 300.0f * q[c];
  }
  const std::vector<float> after = RunPrefill(Context(), problem, problem.Layer(), all);
  for (int64_t row = 0; row < problem.num_tokens(); ++row) {
    if (row % 3 == 0) continue;
    EXPECT_TRUE(SameBits(RowOf(before, row, problem.q_cols()), RowOf(after, row, problem.q_cols())))
        << "row " << row;
  }
}

// A row with window W sees W keys, itself included: position i - W is hidden, i - W + 1 is seen.
TEST_P(AttentionRelationsTest, SlidingWindowHoldsItsSizeInKeys) {
  struct Case {
    int64_t row;
    int64_t window;
  };
  // Also with the border of the window on a block's and on a segment's edge.
  for (const Case c :
       {Case{20, 8}, Case{20, 1}, Case{71, 8}, Case{72, 8}, Case{127, 64}, Case{128, 64},
        Case{1031, 8}, Case{1032, 8}, Case{1090, 66}, Case{1090, 67}}) {
    AttentionProblem problem(
        {.shape = kShape, .num_tokens = 1100, .seed = 9, .kv_type = GetParam()});
    AttentionLayer layer = problem.Layer();
    layer.sliding_window = c.window;
    const RowRange chunk = {.first = c.row - 3, .count = 5};
    const RowRange row = {.first = c.row, .count = 1};
    const auto row_of_chunk = [&] {
      return RowOf(RunPrefill(Context(), problem, layer, chunk), 3, problem.q_cols());
    };
    const auto row_of_whole = [&] {
      return RowOf(
          RunPrefill(Context(), problem, layer, {.first = 0, .count = problem.num_tokens()}), c.row,
          problem.q_cols());
    };
    const std::vector<float> before = RunDecode(Context(), problem, layer, row);
    const auto change = [&](int64_t token) {
      for (int h = 0; h < kShape.num_kv_heads; ++h) {
        for (int i = 0; i < kShape.head_dim; ++i) problem.Value(token, h)[i] += 1.0f;
        problem.StoreToken(token, h);
      }
    };
    change(c.row - c.window);
    EXPECT_TRUE(SameBits(RunDecode(Context(), problem, layer, row), before))
        << "row " << c.row << " window " << c.window;
    EXPECT_TRUE(SameBits(row_of_chunk(), before)) << "row " << c.row << " window " << c.window;
    EXPECT_TRUE(SameBits(row_of_whole(), before)) << "row " << c.row << " window " << c.window;
    change(c.row - c.window + 1);
    const std::vector<float> changed = RunDecode(Context(), problem, layer, row);
    EXPECT_FALSE(SameBits(changed, before)) << "row " << c.row << " window " << c.window;
    EXPECT_TRUE(SameBits(row_of_chunk(), changed)) << "row " << c.row << " window " << c.window;
    EXPECT_TRUE(SameBits(row_of_whole(), changed)) << "row " << c.row << " window " << c.window;
  }
}

TEST_P(AttentionRelationsTest, WindowBeyondTheLengthIsNoWindow) {
  AttentionProblem problem({.shape = kShape, .num_tokens = 200, .seed = 10, .kv_type = GetParam()});
  const RowRange all = {.first = 0, .count = problem.num_tokens()};
  AttentionLayer layer = problem.Layer();
  const std::vector<float> expected = RunPrefill(Context(), problem, layer, all);
  for (const int64_t window : {200, 201, 1 << 20}) {
    layer.sliding_window = window;
    EXPECT_TRUE(SameBits(RunPrefill(Context(), problem, layer, all), expected));
  }
}

// A window of one key: the output is the row's own value. Codes are 255 of 255 times the stored
// ones, which rounds twice.
TEST_P(AttentionRelationsTest, WindowOfOneReturnsTheOwnValue) {
  AttentionProblem problem({.shape = kShape, .num_tokens = 130, .seed = 11, .kv_type = GetParam()});
  AttentionLayer layer = problem.Layer();
  layer.sliding_window = 1;
  const std::vector<float> out =
      RunPrefill(Context(), problem, layer, {.first = 0, .count = problem.num_tokens()});
  for (int64_t row = 0; row < problem.num_tokens(); ++row) {
    for (int head = 0; head < kShape.num_heads; ++head) {
      for (int c = 0; c < kShape.head_dim; ++c) {
        const float got =
            out[static_cast<size_t>(row * problem.q_cols() + head * kShape.head_dim + c)];
        const float* value = problem.Value(row, head / kShape.GroupSize());
        if (GetParam() == KvType::kF16) {
          ASSERT_EQ(got, value[c]);
          continue;
        }
        const float stored = ToQ8({value, size_t{kShape.head_dim}}).At(static_cast<size_t>(c));
        ASSERT_NEAR(got, stored, 2e-7f * std::fabs(stored));
      }
    }
  }
}

TEST_P(AttentionRelationsTest, SequencesOfOneCallEqualSequencesAlone) {
  AttentionProblem a({.shape = kShape, .num_tokens = 1200, .seed = 12, .kv_type = GetParam()});
  AttentionProblem b({.shape = kShape, .num_tokens = 90, .seed = 13, .kv_type = GetParam()});
  // q and out: rows of a, a gap of two, rows of b; sequences in the other order, and an empty one.
  const RowRange rows_a = {.first = 1190, .count = 10};
  const RowRange rows_b = {.first = 80, .count = 3};
  const int64_t cols = a.q_cols();
  std::vector<float> q(static_cast<size_t>(15 * cols), kNaN);
  std::copy_n(a.q() + rows_a.first * cols, rows_a.count * cols, q.begin());
  std::copy_n(b.q() + rows_b.first * cols, rows_b.count * cols, q.begin() + 12 * cols);
  const std::vector<AttentionSequence> sequences = {
      {.first_row = 12, .num_rows = 3, .first_position = 80, .blocks = b.blocks()},
      {.first_row = 5, .num_rows = 0, .first_position = 0, .blocks = nullptr},
      {.first_row = 0, .num_rows = 10, .first_position = 1190, .blocks = a.blocks()}};
  std::vector<float> expected(q.size(), 7.0f);
  const std::vector<float> alone_a = RunPrefill(Context(), a, a.Layer(), rows_a);
  const std::vector<float> alone_b = RunPrefill(Context(), b, b.Layer(), rows_b);
  std::copy(alone_a.begin(), alone_a.end(), expected.begin());
  std::copy(alone_b.begin(), alone_b.end(), expected.begin() + 12 * cols);

  const int num_threads = pool_->num_threads();
  const auto decode_space = *AlignedBuffer<std::byte>::Allocate(
      DecodeAttentionWorkspaceBytes(kShape, sequences, num_threads));
  const auto prefill_space =
      *AlignedBuffer<std::byte>::Allocate(PrefillAttentionWorkspaceBytes(kShape, num_threads));
  for (const bool decode : {true, false}) {
    std::vector<float> out(q.size(), 7.0f);
    const AttentionArgs args = {.q = {q.data(), 15, cols},
                                .out = {out.data(), 15, cols},
                                .sequences = sequences,
                                .shape = kShape,
                                .layer = a.Layer(),
                                .workspace = decode ? decode_space.span() : prefill_space.span()};
    decode ? DecodeAttention(Context(), args) : PrefillAttention(Context(), args);
    EXPECT_TRUE(SameBits(out, expected)) << (decode ? "decode" : "prefill");
  }
}

// Rows in a wider matrix: strides larger than the columns, memory beside them untouched.
TEST_P(AttentionRelationsTest, StridesChangeNothing) {
  AttentionProblem problem({.shape = kShape, .num_tokens = 70, .seed = 14, .kv_type = GetParam()});
  const int64_t cols = problem.q_cols();
  const int64_t stride = cols + 13;
  std::vector<float> q(static_cast<size_t>(70 * stride), kNaN);
  std::vector<float> out(static_cast<size_t>(70 * stride), 7.0f);
  for (int64_t row = 0; row < 70; ++row) {
    std::copy_n(problem.q() + row * cols, cols, q.begin() + row * stride);
  }
  const AttentionSequence sequence = {
      .first_row = 0, .num_rows = 70, .first_position = 0, .blocks = problem.blocks()};
  const auto workspace = *AlignedBuffer<std::byte>::Allocate(
      PrefillAttentionWorkspaceBytes(kShape, pool_->num_threads()));
  PrefillAttention(Context(), {.q = {q.data(), 70, cols, stride},
                               .out = {out.data(), 70, cols, stride},
                               .sequences = {&sequence, 1},
                               .shape = kShape,
                               .layer = problem.Layer(),
                               .workspace = workspace.span()});
  const std::vector<float> expected =
      RunPrefill(Context(), problem, problem.Layer(), {.first = 0, .count = 70});
  for (int64_t row = 0; row < 70; ++row) {
    EXPECT_EQ(std::memcmp(out.data() + row * stride, expected.data() + row * cols,
                          static_cast<size_t>(cols) * sizeof(float)),
              0);
    for (int64_t c = cols; c < stride; ++c) {
      ASSERT_EQ(out[static_cast<size_t>(row * stride + c)], 7.0f);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, AttentionRelationsTest, testing::Values(KvType::kF16, KvType::kQ8),
                         [](const testing::TestParamInfo<KvType>& type) {
                           return std::string(KvTypeName(type.param));
                         });

}  // namespace
}  // namespace baton
