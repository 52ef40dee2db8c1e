// Conformance of block-sparse prefill, by the numbers of the method's list: selection, values, and
// what they must add up to. 1 and 2 are in sparse_vectors_test.cc, what must not change a bit in
// sparse_relations_test.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/attention_task.h"
#include "kernels/isa.h"
#include "kernels/sparse_attention_ops.h"
#include "kernels/test_sparse_problem.h"

namespace baton {
namespace {

class SparseConformanceTest : public testing::Test {
 protected:
  KernelContext Context() { return {.table = KernelsFor(BestIsa()), .pool = *pool_}; }

  std::unique_ptr<ThreadPool> pool_ = *ThreadPool::Make(2);
};

// A policy that leaves much to the energies.
SparsePolicy Selective() {
  return {.sink_tokens = 64, .window_tokens = 64, .last_tiles = 1};
}

ReferenceRow RowOf(const SparseRun& run, const SparseProblem& problem, int64_t row, int head) {
  const int64_t at = row * problem.shape().num_heads + head;
  const auto begin = run.out.begin() + at * problem.shape().head_dim;
  return {.out = {begin, begin + problem.shape().head_dim},
          .lse = static_cast<double>(run.lse[static_cast<size_t>(at)])};
}

void ExpectNear(const ReferenceRow& got, const ReferenceRow& want, double tolerance) {
  ASSERT_EQ(got.out.size(), want.out.size());
  for (size_t c = 0; c < want.out.size(); ++c) ASSERT_NEAR(got.out[c], want.out[c], tolerance);
  if (std::isinf(want.lse)) {
    ASSERT_EQ(got.lse, want.lse);
  } else {
    ASSERT_NEAR(got.lse, want.lse, tolerance);
  }
}

// The selection of a run that has the row at `position`.
const KeptSelection& SelectionOf(const SparseRun& run, int64_t position, int kv_head) {
  for (const KeptSelection& chosen : run.selections) {
    if (chosen.about.kv_head == kv_head && chosen.about.rows.first_position <= position &&
        position <= chosen.about.rows.last_position) {
      return chosen;
    }
  }
  ADD_FAILURE() << "no tile has position " << position;
  return run.selections.front();
}

// Without queries every logit is 0: an energy counts the rows that vote, and nothing else.
TEST_F(SparseConformanceTest, Conformance03ZeroQueriesCountVotes) {
  for (const int block : {64, 128}) {
    for (const int64_t sliding : {0, 200}) {
      for (const int group : {1, 4}) {
        SCOPED_TRACE(testing::Message() << block << ' ' << sliding << ' ' << group);
        SparseInputs inputs = MakeSparseInputs(
            {.shape = {.num_heads = group, .num_kv_heads = 1, .head_dim = 16}, .num_tokens = 700});
        std::fill(inputs.q.begin(), inputs.q.end(), 0.0f);
        const SparseProblem problem(std::move(inputs));
        AttentionLayer layer = problem.Layer();
        layer.sliding_window = sliding;
        const SparsePolicy policy = {.alpha = 1.0f,
                                     .block_tokens = block,
                                     .tile_positions = 128,
                                     .sink_tokens = 0,
                                     .window_tokens = 1,
                                     .last_tiles = 0,
                                     .has_sparse_windows = true};
        const SparseRun run =
            RunSparse(Context(), problem, policy, layer, {.first = 0, .count = 700, .prompt = 700});
        for (const KeptSelection& chosen : run.selections) {
          float largest = 0;
          std::vector<float> votes;
          for (int64_t j = chosen.about.blocks.low; j < chosen.about.blocks.scored_end; ++j) {
            int count = 0;
            for (int64_t p = chosen.about.rows.first_position; p <= chosen.about.rows.last_position;
                 ++p) {
              bool sees = false;
              for (int64_t t = j * block; t < (j + 1) * block; ++t) {
                sees = sees || (t <= p && (sliding == 0 || t > p - sliding));
              }
              count += sees ? group : 0;
            }
            votes.push_back(static_cast<float>(count));
            largest = std::max(largest, votes.back());
          }
          EXPECT_EQ(chosen.energies, votes);
          for (size_t i = 0; i < votes.size(); ++i) {
            const int64_t j = chosen.about.blocks.low + static_cast<int64_t>(i);
            if (votes[i] != largest) continue;
            EXPECT_TRUE(std::binary_search(chosen.kept.begin(), chosen.kept.end(), j)) << j;
          }
        }
      }
    }
  }
}

struct SelectorCase {
  int64_t first;
  int64_t count;
  int group;
};

// Selections of every policy by the reference's, wherever rounding cannot decide.
void ExpectSameSelections(const KernelContext& context, const SparseProblem& problem,
                          const SparsePolicy& policy, int64_t sliding, const SparseRows& rows,
                          int64_t* num_compared) {
  AttentionLayer layer = problem.Layer();
  layer.sliding_window = sliding;
  const SparseRun run = RunSparse(context, problem, policy, layer, rows);
  SparseReferenceArgs args = problem.Reference(layer, rows.first, rows.count);
  // Keys after the call do not exist for it.
  args.prompt = rows.prompt;
  ApplyPolicy(policy, args);
  const std::vector<ReferenceTile> want = SparseReference(args).Select();
  ASSERT_EQ(run.selections.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    const KeptSelection& got = run.selections[i];
    ASSERT_EQ(got.about.tile, want[i].tile);
    ASSERT_EQ(got.about.kv_head, want[i].kv_head);
    ASSERT_EQ(got.about.is_dense, want[i].dense);
    ASSERT_EQ(got.about.blocks.low, want[i].low);
    ASSERT_EQ(got.about.blocks.last, want[i].high);
    ASSERT_EQ(got.about.blocks.edge, want[i].edge);
    if (want[i].margin < 1e-4) continue;
    ++*num_compared;
    ASSERT_EQ(got.kept, want[i].kept) << "tile " << want[i].tile << " margin " << want[i].margin;
    ASSERT_EQ(got.corrected, want[i].corrected);
    double largest = 0;
    for (const double e : want[i].energies) largest = std::max(largest, e);
    ASSERT_EQ(got.energies.size(), want[i].energies.size());
    for (size_t j = 0; j < got.energies.size(); ++j) {
      ASSERT_NEAR(static_cast<double>(got.energies[j]), want[i].energies[j], 1e-4 * largest);
    }
  }
}

TEST_F(SparseConformanceTest, Conformance04SelectorAgainstBinary64) {
  int64_t num_compared = 0;
  for (const int group : {1, 3, 4, 7, 8, 12}) {
    for (const int64_t length : {1, 63, 64, 65, 127, 128, 129, 509, 4133}) {
      const SparseProblem problem(
          MakeSparseInputs({.shape = {.num_heads = 2 * group, .num_kv_heads = 2, .head_dim = 16},
                            .num_tokens = length,
                            .seed = static_cast<uint32_t>(31 * group + length)}));
      for (const int64_t first :
           {int64_t{0}, int64_t{256}, int64_t{301}, int64_t{3712}, int64_t{4001}}) {
        if (first >= length || (length > 4000 && first < 3000)) continue;
        const int64_t count = length - first;
        for (int variant = 0; variant < 6; ++variant) {
          SparsePolicy policy = Selective();
          policy.alpha = 0.3f;
          if (variant % 2 == 1) {
            policy.rule = SelectionRule::kShare;
            policy.share = 0.3;
          }
          if (variant >= 2) policy.estimate = BlockEstimate::kFar;
          policy.num_estimates = variant == 3 ? 8 : 4;
          if (variant >= 4) policy.block_tokens = 128;
          policy.has_sparse_windows = true;
          SCOPED_TRACE(testing::Message() << "group " << group << " length " << length << " first "
                                          << first << ' ' << PolicyText(policy));
          ExpectSameSelections(Context(), problem, policy, variant == 1 || variant == 4 ? 333 : 0,
                               {.first = first, .count = count, .prompt = length}, &num_compared);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
  EXPECT_GT(num_compared, 5000);
}

// The yardsticks: nothing chosen, and chosen by true weight.
TEST_F(SparseConformanceTest, Conformance04YardsticksAgainstBinary64) {
  int64_t num_compared = 0;
  for (const int group : {1, 3, 8}) {
    for (const int64_t length : {1, 65, 509, 1100}) {
      const SparseProblem problem(
          MakeSparseInputs({.shape = {.num_heads = 2 * group, .num_kv_heads = 2, .head_dim = 80},
                            .num_tokens = length,
                            .seed = static_cast<uint32_t>(7 * group + length)}));
      for (const int64_t first : {int64_t{0}, int64_t{301}, int64_t{1024}}) {
        if (first >= length) continue;
        for (int variant = 0; variant < 6; ++variant) {
          SparsePolicy policy = Selective();
          policy.rule = variant < 4 ? SelectionRule::kShare : SelectionRule::kThreshold;
          if (variant == 0) policy.rule = SelectionRule::kNone;
          if (variant > 0) policy.energy = BlockEnergy::kTrue;
          if (variant % 2 == 1) policy.estimate = BlockEstimate::kFar;
          if (variant % 3 == 2) policy.block_tokens = 128;
          policy.share = 0.3;
          policy.alpha = 0.4f;
          policy.has_sparse_windows = true;
          SCOPED_TRACE(testing::Message() << "group " << group << " length " << length << " first "
                                          << first << ' ' << PolicyText(policy));
          ExpectSameSelections(Context(), problem, policy, variant == 3 ? 333 : 0,
                               {.first = first, .count = length - first, .prompt = length},
                               &num_compared);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
  EXPECT_GT(num_compared, 1000);
}

// Kept lists that no rule would give, by the functions themselves.
TEST_F(SparseConformanceTest, Conformance06ArbitraryKeptListsAgainstMaskedDense) {
  for (const int block : {64, 128}) {
    for (const int64_t sliding : {0, 150}) {
      const SparseProblem problem(MakeSparseInputs(
          {.shape = {.num_heads = 3, .num_kv_heads = 1, .head_dim = 80}, .num_tokens = 2200}));
      AttentionLayer layer = problem.Layer();
      layer.sliding_window = sliding;
      const int64_t first = 2140;
      const int64_t count = 32;
      SparseReferenceArgs args = problem.Reference(layer, first, count);
      args.block = block;
      const SparseReference reference(args);
      const int32_t last = static_cast<int32_t>((first + count - 1) / block);
      std::vector<std::vector<int32_t>> lists = {{}, {0}, {last}, {3, 7}, {0, 1, last - 1}, {}};
      for (int32_t j = 0; j <= last; ++j) lists.back().push_back(j);
      for (const Isa isa : RunnableIsas()) {
        for (const std::vector<int32_t>& kept : lists) {
          SCOPED_TRACE(testing::Message() << IsaName(isa) << " block " << block << " sliding "
                                          << sliding << " kept " << testing::PrintToString(kept));
          SparseRun run;
          run.out.assign(static_cast<size_t>(count * 3 * 80), 7.0f);
          const auto scratch =
              *AlignedBuffer<std::byte>::Allocate(SparseScratchBytes(count * 3, 80));
          std::memset(scratch.data(), 0xff, scratch.size());
          const AttentionSequence sequence = {.first_row = 0,
                                              .num_rows = count,
                                              .first_position = first,
                                              .blocks = problem.blocks()};
          AttentionTask task =
              internal::MakeTask(KernelsFor(isa),
                                 {.q = {problem.inputs().q.data() + first * 240, count, 240},
                                  .out = {run.out.data(), count, 240},
                                  .sequences = {&sequence, 1},
                                  .shape = problem.shape(),
                                  .layer = layer,
                                  .workspace = {}},
                                 sequence, 0);
          task.scratch = scratch.data();
          std::vector<float> m(static_cast<size_t>(count * 3));
          std::vector<float> l(m.size());
          const SparseAttentionOps& ops = *KernelsFor(isa).sparse_attention;
          ops.prepare(task);
          ops.attend(task, kept.data(), static_cast<int64_t>(kept.size()), block);
          ops.finish(task, m.data(), l.data());
          for (size_t i = 0; i < m.size(); ++i) {
            run.lse.push_back(static_cast<float>(static_cast<double>(m[i]) * std::log(2.0) +
                                                 std::log(static_cast<double>(l[i]))));
          }
          for (int64_t row = 0; row < count; ++row) {
            for (int h = 0; h < 3; ++h) {
              ExpectNear(RowOf(run, problem, row, h),
                         reference.Attend(first + row, h, {kept.begin(), kept.end()}, {}), 2e-5);
              if (HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

struct CorrectionCase {
  AttentionShape shape;
  SparsePolicy policy;
  int64_t num_tokens;
  float soft_cap = 0;
  int64_t sliding = 0;
};

std::vector<CorrectionCase> CorrectionCases() {
  std::vector<CorrectionCase> cases;
  const SparsePolicy base = {.alpha = 0.5f,
                             .sink_tokens = 0,
                             .window_tokens = 64,
                             .last_tiles = 0,
                             .has_sparse_windows = true};
  cases.push_back({{4, 1, 128}, base, 1500});
  cases.push_back({{6, 2, 64}, base, 700, 5.0f});
  cases.push_back({{1, 1, 32}, base, 700});
  cases.push_back({{2, 1, 256}, base, 500});
  cases.push_back({{8, 1, 48}, base, 900, 0, 500});
  for (const int num_estimates : {2, 4, 8}) {
    SparsePolicy far = base;
    far.estimate = BlockEstimate::kFar;
    far.num_estimates = num_estimates;
    cases.push_back({{3, 1, 64}, far, 800});
  }
  for (const BlockEstimate estimate : {BlockEstimate::kMean, BlockEstimate::kFar}) {
    SparsePolicy wide = base;
    wide.estimate = estimate;
    wide.block_tokens = 128;
    cases.push_back({{4, 2, 64}, wide, 1000, 8.0f});
  }
  // More than one strip of 64 blocks.
  cases.push_back({{4, 1, 16}, base, 4300});
  return cases;
}

TEST_F(SparseConformanceTest, Conformance07CorrectionAgainstBinary64) {
  for (const CorrectionCase& c : CorrectionCases()) {
    const SparseProblem problem(
        MakeSparseInputs({.shape = c.shape, .num_tokens = c.num_tokens, .seed = 17}));
    AttentionLayer layer = problem.Layer();
    layer.soft_cap = c.soft_cap;
    layer.sliding_window = c.sliding;
    SCOPED_TRACE(testing::Message() << c.shape.head_dim << ' ' << PolicyText(c.policy));
    const SparseRun run = RunSparse(Context(), problem, c.policy, layer,
                                    {.first = 0, .count = c.num_tokens, .prompt = c.num_tokens});
    SparseReferenceArgs args = problem.Reference(layer, 0, c.num_tokens);
    ApplyPolicy(c.policy, args);
    const SparseReference reference(args);
    int64_t num_corrected = 0;
    for (int64_t row = 0; row < c.num_tokens; row += 23) {
      for (int h = 0; h < c.shape.num_heads; ++h) {
        const KeptSelection& chosen = SelectionOf(run, row, h / c.shape.GroupSize());
        num_corrected += static_cast<int64_t>(chosen.corrected.size());
        ExpectNear(RowOf(run, problem, row, h),
                   reference.Attend(row, h, chosen.kept, chosen.corrected), 2e-5);
        if (HasFatalFailure()) return;
      }
    }
    EXPECT_GT(num_corrected, 0);
  }
}

// A block's estimates hold at most its mass (the exponential is convex), so each row's sum grows
// from sparse to corrected to dense.
TEST_F(SparseConformanceTest, Conformance08SumsGrowFromSparseToCorrectedToDense) {
  for (const BlockEstimate estimate : {BlockEstimate::kMean, BlockEstimate::kFar}) {
    for (const uint32_t seed : {1u, 2u, 3u}) {
      const SparseProblem problem(
          MakeSparseInputs({.shape = {.num_heads = 8, .num_kv_heads = 2, .head_dim = 64},
                            .num_tokens = 1000,
                            .seed = seed}));
      SparsePolicy policy = Selective();
      policy.alpha = 0.7f;
      policy.last_tiles = 0;
      policy.estimate = estimate;
      const SparseRows all = {.first = 0, .count = 1000, .prompt = 1000};
      const SparseRun corrected = RunSparse(Context(), problem, policy, problem.Layer(), all);
      policy.has_correction = false;
      const SparseRun sparse = RunSparse(Context(), problem, policy, problem.Layer(), all);
      policy.rule = SelectionRule::kAll;
      const SparseRun dense = RunSparse(Context(), problem, policy, problem.Layer(), all);
      double gained = 0;
      for (size_t i = 0; i < dense.lse.size(); ++i) {
        ASSERT_LE(sparse.lse[i], corrected.lse[i] + 1e-4f) << i;
        ASSERT_LE(corrected.lse[i], dense.lse[i] + 1e-4f) << i;
        gained += static_cast<double>(corrected.lse[i] - sparse.lse[i]);
      }
      EXPECT_GT(gained, 1.0);
    }
  }
}

TEST_F(SparseConformanceTest, Conformance09ConstantKeysMakeCorrectionExact) {
  for (const BlockEstimate estimate : {BlockEstimate::kMean, BlockEstimate::kFar}) {
    for (const float soft_cap : {0.0f, 4.0f}) {
      SparseInputs inputs = MakeSparseInputs(
          {.shape = {.num_heads = 4, .num_kv_heads = 1, .head_dim = 64}, .num_tokens = 900});
      for (int64_t t = 0; t < 900; ++t) {
        std::copy_n(inputs.k.begin() + t / 64 * 64 * 64, 64, inputs.k.begin() + t * 64);
      }
      const SparseProblem problem(std::move(inputs));
      AttentionLayer layer = problem.Layer();
      layer.soft_cap = soft_cap;
      // Nothing is chosen: all but the window is corrected.
      const SparsePolicy policy = {.alpha = 1.5f,
                                   .estimate = estimate,
                                   .sink_tokens = 0,
                                   .window_tokens = 1,
                                   .last_tiles = 0};
      const SparseRows all = {.first = 0, .count = 900, .prompt = 900};
      const SparseRun run = RunSparse(Context(), problem, policy, layer, all);
      const std::vector<float> dense = RunDense(Context(), problem, layer, all);
      EXPECT_FALSE(run.selections.back().corrected.empty());
      for (size_t i = 0; i < dense.size(); ++i) ASSERT_NEAR(run.out[i], dense[i], 2e-5f) << i;
    }
  }
}

// Each token that a row sees is in a kept or in a corrected block, and in one only; corrected
// blocks hold no token that the row does not see.
TEST_F(SparseConformanceTest, Conformance10KeptAndCorrectedPartitionWhatARowSees) {
  for (const int block : {64, 128}) {
    for (const int tile : {8, 32, 128, 256}) {
      for (const int64_t sliding : {0, 100, 257}) {
        const int64_t length = 821;
        const SparseProblem problem(MakeSparseInputs(
            {.shape = {.num_heads = 1, .num_kv_heads = 1, .head_dim = 16}, .num_tokens = length}));
        AttentionLayer layer = problem.Layer();
        layer.sliding_window = sliding;
        const SparsePolicy policy = {.alpha = 0.8f,
                                     .block_tokens = block,
                                     .tile_positions = tile,
                                     .sink_tokens = 10,
                                     .window_tokens = 1,
                                     .last_tiles = 1,
                                     .has_sparse_windows = true};
        SCOPED_TRACE(testing::Message() << block << ' ' << tile << ' ' << sliding);
        const int64_t first = 77;
        const SparseRun run =
            RunSparse(Context(), problem, policy, layer,
                      {.first = first, .count = length - first, .prompt = length});
        for (const KeptSelection& chosen : run.selections) {
          for (int64_t p = chosen.about.rows.first_position; p <= chosen.about.rows.last_position;
               ++p) {
            std::vector<int> uses(static_cast<size_t>(length + block), 0);
            for (const int64_t j : chosen.kept) {
              for (int64_t t = j * block; t < (j + 1) * block; ++t) ++uses[static_cast<size_t>(t)];
            }
            for (const int64_t j : chosen.corrected) {
              for (int64_t t = j * block; t < (j + 1) * block; ++t) {
                ASSERT_TRUE(t <= p && (sliding == 0 || t > p - sliding)) << "row " << p;
                ++uses[static_cast<size_t>(t)];
              }
            }
            for (int64_t t = sliding == 0 ? 0 : std::max<int64_t>(0, p - sliding + 1); t <= p;
                 ++t) {
              ASSERT_EQ(uses[static_cast<size_t>(t)], 1) << "row " << p << " token " << t;
            }
          }
        }
      }
    }
  }
}

// Logits of several hundred: most energies and weights vanish, and nothing overflows.
TEST_F(SparseConformanceTest, Conformance16ExtremeLogits) {
  for (const BlockEstimate estimate : {BlockEstimate::kMean, BlockEstimate::kFar}) {
    const int64_t length = 513;  // the last tile has one token
    const SparseProblem problem(
        MakeSparseInputs({.shape = {.num_heads = 2, .num_kv_heads = 1, .head_dim = 64},
                          .num_tokens = length,
                          .seed = 5,
                          .query_range = 40.0f}));
    SparsePolicy policy = Selective();
    policy.last_tiles = 0;
    policy.estimate = estimate;
    const SparseRun run = RunSparse(Context(), problem, policy, problem.Layer(),
                                    {.first = 0, .count = length, .prompt = length});
    EXPECT_EQ(run.selections.back().about.rows.first_position, length - 1);
    float largest = 0;
    int64_t num_tiny = 0;
    for (const KeptSelection& chosen : run.selections) {
      largest = std::max(largest, chosen.about.largest_logit);
      for (const float energy : chosen.energies) {
        ASSERT_TRUE(std::isfinite(energy));
        num_tiny += energy < 1e-30f ? 1 : 0;
      }
    }
    EXPECT_GT(largest, 300.0f);
    EXPECT_GT(num_tiny, 0);
    SparseReferenceArgs args = problem.Reference(problem.Layer(), 0, length);
    ApplyPolicy(policy, args);
    const SparseReference reference(args);
    for (int64_t row = 0; row < length; row += 7) {
      for (int h = 0; h < 2; ++h) {
        const KeptSelection& chosen = SelectionOf(run, row, 0);
        // An error of a logit grows with its size: 400 times the usual.
        ExpectNear(RowOf(run, problem, row, h),
                   reference.Attend(row, h, chosen.kept, chosen.corrected), 2e-3);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(SparseConformanceTest, Conformance17IndicesOf128KTokens) {
  const int64_t length = 131072 + 37;
  const SparseProblem problem(MakeSparseInputs(
      {.shape = {.num_heads = 1, .num_kv_heads = 1, .head_dim = 16}, .num_tokens = length}));
  SparsePolicy policy = Selective();
  policy.last_tiles = 0;
  policy.alpha = 0.4f;
  const int64_t first = 131072 - 256;
  const SparseRun run = RunSparse(Context(), problem, policy, problem.Layer(),
                                  {.first = first, .count = length - first, .prompt = length});
  SparseReferenceArgs args = problem.Reference(problem.Layer(), first, length - first);
  ApplyPolicy(policy, args);
  const SparseReference reference(args);
  for (int64_t row = 0; row < length - first; row += 29) {
    const KeptSelection& chosen = SelectionOf(run, first + row, 0);
    EXPECT_GT(chosen.corrected.size(), 500u);
    ExpectNear(RowOf(run, problem, row, 0),
               reference.Attend(first + row, 0, chosen.kept, chosen.corrected), 2e-5);
    if (HasFatalFailure()) return;
  }
  const std::vector<ReferenceTile> want = reference.Select();
  ASSERT_EQ(run.selections.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    if (want[i].margin < 1e-4) continue;
    EXPECT_EQ(run.selections[i].kept, want[i].kept);
  }
}

}  // namespace
}  // namespace baton
