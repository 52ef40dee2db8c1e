// Random shapes for attention, dense and sparse (test_random_shapes.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/attention_ref.h"
#include "kernels/test_attention_problem.h"
#include "kernels/test_random_shapes.h"
#include "kernels/test_sparse_problem.h"

namespace baton {
namespace {

class RandomAttentionShapesTest : public RandomShapesTest {
 protected:
  void Run(uint32_t count);
  void AttentionOfShape(Draw& draw);
  void SparseShape(Draw& draw);
};

AttentionShape DrawAttentionShape(Draw& draw, int max_head_dim) {
  const int kv_heads = static_cast<int>(draw.Size(3));
  return {.num_heads = kv_heads * static_cast<int>(draw.Size(9)),
          .num_kv_heads = kv_heads,
          .head_dim = 16 * static_cast<int>(draw.Size(max_head_dim / 16))};
}

// Prefill and decode of rows anywhere in a sequence.
void RandomAttentionShapesTest::AttentionOfShape(Draw& draw) {
  const AttentionShape shape = DrawAttentionShape(draw, 256);
  const int64_t tokens = draw.Once(8) ? draw.Between(1000, 1200) : draw.Size(300);
  const KvType kv_type = draw.Once(3) ? KvType::kQ8 : KvType::kF16;
  AttentionProblem problem(
      {.shape = shape, .num_tokens = tokens, .seed = draw.Seed(), .kv_type = kv_type});
  AttentionLayer layer = problem.Layer();
  if (draw.Once(3)) layer.sliding_window = draw.Size(tokens + 10);
  if (draw.Once(3)) layer.soft_cap = static_cast<float>(draw.Between(1, 60));
  const int64_t count = std::min(tokens, draw.Size(80));
  const RowRange rows = {.first = draw.Between(0, tokens - count), .count = count};
  SCOPED_TRACE(testing::Message() << "attention heads " << shape.num_heads << '/'
                                  << shape.num_kv_heads << " of " << shape.head_dim << " tokens "
                                  << tokens << " window " << layer.sliding_window << " cap "
                                  << layer.soft_cap << " type " << KvTypeName(kv_type) << " rows "
                                  << rows.first << " + " << count);
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
  if (kv_type == KvType::kQ8) return;  // the formula of its codes: attention_test.cc
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
void RandomAttentionShapesTest::SparseShape(Draw& draw) {
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

void RandomAttentionShapesTest::Run(uint32_t count) {
  ForShapes(count, [&](Draw& draw, uint32_t number) {
    number % 3 == 2 ? SparseShape(draw) : AttentionOfShape(draw);
  });
}

TEST_F(RandomAttentionShapesTest, AreRight) {
  Run(45);
}

// tests/nightly --only shapes
TEST_F(RandomAttentionShapesTest, DISABLED_FifteenHundredAreRight) {
  Run(1500);
}

}  // namespace
}  // namespace baton
