#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "kernels/attention_ref.h"
#include "kernels/isa.h"
#include "kernels/test_attention_problem.h"

namespace baton {
namespace {

struct AttentionCase {
  int num_heads;
  int num_kv_heads;
  int head_dim;
  int64_t num_tokens;
  int64_t sliding_window = 0;
  float soft_cap = 0.0f;
  float query_range = 1.0f;
  KvType kv_type = KvType::kF16;
};

void PrintTo(const AttentionCase& c, std::ostream* out) {
  *out << "heads " << c.num_heads << "/" << c.num_kv_heads << " d " << c.head_dim << " tokens "
       << c.num_tokens << " window " << c.sliding_window << " cap " << c.soft_cap << " range "
       << c.query_range << " type " << KvTypeName(c.kv_type);
}

class AttentionTest : public testing::TestWithParam<AttentionCase> {
 protected:
  AttentionTest()
      : problem_({.shape = {.num_heads = GetParam().num_heads,
                            .num_kv_heads = GetParam().num_kv_heads,
                            .head_dim = GetParam().head_dim},
                  .num_tokens = GetParam().num_tokens,
                  .seed = 7,
                  .query_range = GetParam().query_range,
                  .kv_type = GetParam().kv_type}),
        pool_(*ThreadPool::Make(2)) {
    layer_ = problem_.Layer();
    layer_.sliding_window = GetParam().sliding_window;
    layer_.soft_cap = GetParam().soft_cap;
  }

  KernelContext Context(Isa isa) { return {.table = KernelsFor(isa), .pool = *pool_}; }

  AttentionProblem problem_;
  AttentionLayer layer_;
  std::unique_ptr<ThreadPool> pool_;
};

// What rounding may do to one output: errors of the logits move every weight, the sums of a segment
// add one rounding per key.
double Bound(const AttentionReference& reference, int head_dim) {
  constexpr double kUnit = 0x1p-24;
  const double logit_error =
      kUnit * (head_dim * reference.largest_terms + 4 * reference.largest_logit);
  return reference.largest_value * (2 * logit_error + 1e-6 + kUnit * (kSegmentTokens + 64));
}

// With KvType::kF16.
class F16AttentionTest : public AttentionTest {};

TEST_P(F16AttentionTest, AgreesWithTheFormulaInDouble) {
  const AttentionShape& shape = problem_.shape();
  const std::vector<float> out = RunPrefill(Context(BestIsa()), problem_, layer_,
                                            {.first = 0, .count = problem_.num_tokens()});
  double squared_error = 0;
  double squared_norm = 0;
  // All rows near borders of blocks and tiles, some of the others.
  for (int64_t row = 0; row < problem_.num_tokens();
       row += row % 64 < 3 || row % 64 > 60 ? 1 : 19) {
    for (int head = 0; head < shape.num_heads; ++head) {
      const int kv_head = head / shape.GroupSize();
      const std::vector<float> keys = problem_.Gather(problem_.keys(), kv_head);
      const std::vector<float> values = problem_.Gather(problem_.values(), kv_head);
      const int64_t window = layer_.sliding_window == 0 ? row + 1 : layer_.sliding_window;
      const int64_t offset = row * problem_.q_cols() + int64_t{head} * shape.head_dim;
      const AttentionReference reference =
          AttendReference({.q = problem_.q() + offset,
                           .keys = keys.data(),
                           .values = values.data(),
                           .first_key = std::max(int64_t{0}, row - window + 1),
                           .last_key = row,
                           .head_dim = shape.head_dim,
                           .scale = static_cast<double>(layer_.scale),
                           .soft_cap = static_cast<double>(layer_.soft_cap)});
      const double bound = Bound(reference, shape.head_dim);
      for (int c = 0; c < shape.head_dim; ++c) {
        const double error = static_cast<double>(out[static_cast<size_t>(offset + c)]) -
                             reference.out[static_cast<size_t>(c)];
        ASSERT_LE(std::fabs(error), bound) << "row " << row << " head " << head << " c " << c;
        squared_error += error * error;
        squared_norm +=
            reference.out[static_cast<size_t>(c)] * reference.out[static_cast<size_t>(c)];
      }
    }
  }
  // Rounding errors are random: the whole is far nearer than the worst case of one element. An
  // error of a logit of size s grows with s.
  const double logit_size = std::max(1.0, static_cast<double>(GetParam().query_range) * 4);
  EXPECT_LE(std::sqrt(squared_error / squared_norm), 1e-6 * logit_size);
}

// With KvType::kQ8: keys, values and queries are those that their codes stand for, and the rounding
// of weights is predicted.
class Q8AttentionTest : public AttentionTest {
 protected:
  // Rows [tokens][head_dim] of one KV head as their codes, `group` numbers to a scale.
  static std::vector<Q8Numbers> CodesOf(const std::vector<float>& rows, int head_dim, int group) {
    std::vector<Q8Numbers> result;
    for (size_t row = 0; row < rows.size(); row += static_cast<size_t>(head_dim)) {
      for (int c = 0; c < head_dim; c += group) {
        result.push_back(ToQ8({rows.data() + row + static_cast<size_t>(c),
                               static_cast<size_t>(std::min(group, head_dim - c))}));
      }
    }
    return result;
  }

  static std::vector<float> NumbersOf(const std::vector<Q8Numbers>& codes) {
    std::vector<float> result;
    for (const Q8Numbers& q8 : codes) {
      for (size_t i = 0; i < q8.codes.size(); ++i) result.push_back(q8.At(i));
    }
    return result;
  }

  // A row's query, scaled as kernels do it, as its codes: its logits are in units of log2, or what
  // tanh is taken of.
  std::vector<float> Query(int64_t offset) {
    const double scale = static_cast<double>(layer_.scale);
    const double cap = static_cast<double>(layer_.soft_cap);
    const float factor = static_cast<float>(cap > 0 ? scale / cap : scale * M_LOG2E);
    std::vector<float> q;
    for (int c = 0; c < GetParam().head_dim; ++c) q.push_back(problem_.q()[offset + c] * factor);
    return NumbersOf(CodesOf(q, GetParam().head_dim, kKeyScaleGroup));
  }
};

// What rounding a block's weights to 255 steps does to one output.
struct WeightRounding {
  double most = 0;
  double variance = 0;
};
WeightRounding PredictRounding(const AttentionReference& reference,
                               const std::vector<Q8Numbers>& values, int64_t first_key, int c) {
  WeightRounding result;
  const int64_t end = first_key + static_cast<int64_t>(reference.shares.size());
  for (int64_t block = first_key / kBlockTokens; block * kBlockTokens < end; ++block) {
    double top = 0;
    double sum = 0;
    double squares = 0;
    for (int64_t t = std::max(first_key, block * kBlockTokens);
         t < std::min(end, (block + 1) * kBlockTokens); ++t) {
      const Q8Numbers& value = values[static_cast<size_t>(t)];
      top = std::max(top, reference.shares[static_cast<size_t>(t - first_key)] *
                              static_cast<double>(value.scale));
      const double code = std::abs(value.codes[static_cast<size_t>(c)]);
      sum += code;
      squares += code * code;
    }
    const double step = top / 255;
    result.most += step / 2 * sum;
    result.variance += step * step / 12 * squares;
  }
  return result;
}

TEST_P(Q8AttentionTest, AgreesWithTheFormulaOfItsCodesInDouble) {
  const AttentionShape& shape = problem_.shape();
  const std::vector<float> out = RunPrefill(Context(BestIsa()), problem_, layer_,
                                            {.first = 0, .count = problem_.num_tokens()});
  const double cap = static_cast<double>(layer_.soft_cap);
  double squared_error = 0;
  double squared_norm = 0;
  double variance = 0;
  for (int head = 0; head < shape.num_heads; ++head) {
    const int kv_head = head / shape.GroupSize();
    const std::vector<float> keys = NumbersOf(
        CodesOf(problem_.Gather(problem_.keys(), kv_head), shape.head_dim, kKeyScaleGroup));
    const std::vector<Q8Numbers> value_codes =
        CodesOf(problem_.Gather(problem_.values(), kv_head), shape.head_dim, shape.head_dim);
    const std::vector<float> values = NumbersOf(value_codes);
    for (int64_t row = 0; row < problem_.num_tokens();
         row += row % 64 < 3 || row % 64 > 60 ? 1 : 19) {
      const int64_t window = layer_.sliding_window == 0 ? row + 1 : layer_.sliding_window;
      const int64_t offset = row * problem_.q_cols() + int64_t{head} * shape.head_dim;
      const std::vector<float> q = Query(offset);
      const int64_t first_key = std::max(int64_t{0}, row - window + 1);
      const AttentionReference reference = AttendReference({.q = q.data(),
                                                            .keys = keys.data(),
                                                            .values = values.data(),
                                                            .first_key = first_key,
                                                            .last_key = row,
                                                            .head_dim = shape.head_dim,
                                                            .scale = cap > 0 ? cap : M_LN2,
                                                            .soft_cap = cap});
      const double bound = Bound(reference, shape.head_dim);
      for (int c = 0; c < shape.head_dim; ++c) {
        const WeightRounding rounding = PredictRounding(reference, value_codes, first_key, c);
        const double want = reference.out[static_cast<size_t>(c)];
        const double error = static_cast<double>(out[static_cast<size_t>(offset + c)]) - want;
        ASSERT_LE(std::fabs(error), bound + rounding.most * (1 + 1e-4))
            << "row " << row << " head " << head << " c " << c;
        squared_error += error * error;
        squared_norm += want * want;
        variance += rounding.variance;
      }
    }
  }
  // The rest is what f32 arithmetic does, as with KvType::kF16.
  const double logit_size = std::max(1.0, static_cast<double>(GetParam().query_range) * 4);
  EXPECT_LE(std::sqrt(squared_error),
            std::sqrt(1.5 * variance) + 1e-6 * logit_size * std::sqrt(squared_norm));
}

TEST_P(AttentionTest, EveryInstructionSetGivesTheSameBits) {
  // The portable build is slow: the last rows see everything there is to see.
  const int64_t count = std::min<int64_t>(problem_.num_tokens(), 70);
  const RowRange rows = {.first = problem_.num_tokens() - count, .count = count};
  const std::vector<float> expected = RunPrefill(Context(Isa::kPortable), problem_, layer_, rows);
  const RowRange last = {.first = problem_.num_tokens() - std::min<int64_t>(count, 3),
                         .count = std::min<int64_t>(count, 3)};
  const std::vector<float> expected_last(
      expected.end() - static_cast<std::ptrdiff_t>(last.count * problem_.q_cols()), expected.end());
  for (const Isa isa : RunnableIsas()) {
    SCOPED_TRACE(IsaName(isa));
    KernelTable table = KernelsFor(isa);
    for (const bool widens_blocks : {true, false}) {
      SCOPED_TRACE(widens_blocks);
      table.widens_blocks = widens_blocks;
      const KernelContext context = {.table = table, .pool = *pool_};
      EXPECT_TRUE(SameBits(RunPrefill(context, problem_, layer_, rows), expected));
      EXPECT_TRUE(SameBits(RunDecode(context, problem_, layer_, last), expected_last));
    }
  }
}

TEST_P(AttentionTest, DecodeOfARowEqualsItInPrefill) {
  const KernelContext context = Context(BestIsa());
  const std::vector<float> whole =
      RunPrefill(context, problem_, layer_, {.first = 0, .count = problem_.num_tokens()});
  for (const int64_t row :
       {0, 1, 14, 15, 16, 17, 62, 63, 64, 65, 127, 128, 1022, 1023, 1024, 1025, 1087, 1088}) {
    if (row >= problem_.num_tokens()) break;
    const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(row * problem_.q_cols());
    const std::vector<float> expected(begin,
                                      begin + static_cast<std::ptrdiff_t>(problem_.q_cols()));
    const std::vector<float> out = RunDecode(context, problem_, layer_, {.first = row, .count = 1});
    EXPECT_TRUE(SameBits(out, expected)) << "row " << row;
  }
}

constexpr AttentionCase kCases[] = {
    {3, 1, 64, 1},
    {3, 1, 64, 16},
    {3, 1, 64, 17},
    {3, 1, 64, 63},
    {3, 1, 64, 64},
    {3, 1, 64, 65},
    {9, 3, 64, 1100},
    {1, 1, 64, 1024},
    {2, 2, 128, 1025},
    {4, 1, 256, 200},
    {8, 1, 128, 130},
    {8, 2, 80, 150},
    {5, 1, 96, 131},
    {7, 1, 16, 70},
    {2, 1, 48, 90},
    {1, 1, 112, 90},
    {14, 1, 32, 67},
    {2, 1, 512, 67},
    {3, 1, 64, 2200},
    {3, 1, 64, 300, 1},
    {3, 1, 64, 300, 8},
    {1, 1, 64, 300, 64},
    {4, 1, 64, 300, 65},
    {3, 1, 64, 1200, 100},
    {3, 1, 64, 1200, 1100},
    {3, 1, 64, 200, 1000},
    {4, 1, 64, 300, 0, 50.0f},
    {2, 1, 80, 300, 40, 5.0f},
    // Logits of about 400 in size: weights far below the smallest number and no overflow.
    {2, 1, 64, 300, 0, 0.0f, 120.0f},
    {2, 1, 64, 1200, 0, 30.0f, 120.0f}};

std::vector<AttentionCase> CasesOf(KvType type) {
  std::vector<AttentionCase> cases(std::begin(kCases), std::end(kCases));
  for (AttentionCase& c : cases) c.kv_type = type;
  return cases;
}

INSTANTIATE_TEST_SUITE_P(F16, F16AttentionTest, testing::ValuesIn(CasesOf(KvType::kF16)));
INSTANTIATE_TEST_SUITE_P(Q8, Q8AttentionTest, testing::ValuesIn(CasesOf(KvType::kQ8)));
INSTANTIATE_TEST_SUITE_P(F16, AttentionTest, testing::ValuesIn(CasesOf(KvType::kF16)));
INSTANTIATE_TEST_SUITE_P(Q8, AttentionTest, testing::ValuesIn(CasesOf(KvType::kQ8)));

}  // namespace
}  // namespace baton
