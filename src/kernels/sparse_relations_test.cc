// What must not change a bit of sparse prefill: equality with dense attention, chunks, batches,
// threads, places of blocks, instruction sets. Numbers as in sparse_conformance_test.cc.
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
#include "kernels/random_energy.h"
#include "kernels/test_sparse_problem.h"

namespace baton {
namespace {

constexpr AttentionShape kShape = {.num_heads = 6, .num_kv_heads = 2, .head_dim = 64};

SparsePolicy Selective() {
  return {.alpha = 0.4f, .sink_tokens = 64, .window_tokens = 64, .last_tiles = 1};
}

// Policies that differ in everything that has code of its own.
std::vector<SparsePolicy> Policies() {
  std::vector<SparsePolicy> all(8, Selective());
  all[1].estimate = BlockEstimate::kFar;
  all[2].rule = SelectionRule::kShare;
  all[2].share = 0.25;
  all[2].estimate = BlockEstimate::kFar;
  all[2].num_estimates = 8;
  all[2].block_tokens = 128;
  all[3].block_tokens = 128;
  all[3].has_sparse_windows = true;
  all[4].has_correction = false;
  all[5].rule = SelectionRule::kNone;
  all[6].rule = SelectionRule::kShare;
  all[6].energy = BlockEnergy::kRandom;
  all[6].estimate = BlockEstimate::kFar;
  all[7] = all[6];
  all[7].energy = BlockEnergy::kTrue;
  all[7].has_sparse_windows = true;
  return all;
}

bool SameRuns(const SparseRun& a, const SparseRun& b) {
  if (!SameFloats(a.out, b.out) || !SameFloats(a.lse, b.lse)) return false;
  return std::equal(a.selections.begin(), a.selections.end(), b.selections.begin(),
                    b.selections.end(),
                    [](const KeptSelection& x, const KeptSelection& y) { return x.SameAs(y); });
}

// Rows [first, first + count) of a run that begins at row 0.
SparseRun RowsOf(const SparseRun& all, const SparseProblem& problem, int64_t first, int64_t count) {
  SparseRun part;
  const int64_t cols = problem.inputs().q_cols();
  const int64_t heads = problem.shape().num_heads;
  part.out.assign(all.out.begin() + first * cols, all.out.begin() + (first + count) * cols);
  part.lse.assign(all.lse.begin() + first * heads, all.lse.begin() + (first + count) * heads);
  return part;
}

class SparseRelationsTest : public testing::TestWithParam<KvType> {
 protected:
  KernelContext Context() { return {.table = KernelsFor(BestIsa()), .pool = *pool_}; }

  std::unique_ptr<ThreadPool> pool_ = *ThreadPool::Make(2);
};

// A layer or head with a share of its own chooses as if the rule had that share.
TEST_P(SparseRelationsTest, SharesOfLayersAndHeadsAreThoseOfTheRule) {
  const int64_t length = 1250;
  const SparseProblem problem(MakeSparseInputs({.shape = kShape, .num_tokens = length}),
                              GetParam());
  ASSERT_EQ(kShape.num_kv_heads, 2);
  SparsePolicy own = Selective();
  own.rule = SelectionRule::kShare;
  own.share = 0.2;
  const auto chosen = [&](const SparsePolicy& policy, int layer, int kv_head) {
    const SparseRun run =
        RunSparse(Context(), problem, policy, problem.Layer(),
                  {.first = 0, .count = length, .prompt = length, .layer = layer});
    std::vector<std::vector<int64_t>> kept;
    for (const KeptSelection& selection : run.selections) {
      if (selection.about.kv_head == kv_head) kept.push_back(selection.kept);
    }
    return kept;
  };
  const auto with_share = [&](double share) {
    SparsePolicy policy = own;
    policy.shares.clear();
    policy.share = share;
    return policy;
  };
  own.shares = {{.layer = 4, .share = 0.7}, {.layer = 4, .kv_head = 1, .share = 0.4}};
  EXPECT_EQ(chosen(own, 4, 0), chosen(with_share(0.7), 4, 0));
  EXPECT_EQ(chosen(own, 4, 1), chosen(with_share(0.4), 4, 1));
  EXPECT_EQ(chosen(own, 3, 0), chosen(with_share(0.2), 3, 0));
  EXPECT_NE(chosen(own, 4, 0), chosen(own, 3, 0));
  EXPECT_NE(chosen(own, 4, 1), chosen(own, 3, 1));
}

TEST_P(SparseRelationsTest, Conformance05WhatIsDenseHasTheBitsOfTheDenseKernel) {
  const int64_t length = 1250;
  const SparseProblem problem(MakeSparseInputs({.shape = kShape, .num_tokens = length}),
                              GetParam());
  const SparsePolicy base = Selective();
  std::vector<SparsePolicy> dense(6, base);
  dense[0].alpha = 0.0f;
  dense[1].last_tiles = 1 << 20;
  dense[2].min_prompt_tokens = length;
  dense[3].dense_layers = {4};
  dense[4].dense_heads = {{4, 0}, {4, 1}};
  dense[5].rule = SelectionRule::kAll;
  for (const int64_t sliding : {0, 300}) {
    AttentionLayer layer = problem.Layer();
    layer.sliding_window = sliding;
    for (const int64_t first : {0, 333}) {
      const SparseRows rows = {
          .first = first, .count = length - first, .prompt = length, .layer = 4};
      const std::vector<float> want = RunDense(Context(), problem, layer, rows);
      for (size_t i = 0; i < dense.size(); ++i) {
        for (const int block : {64, 128}) {
          dense[i].block_tokens = block;
          dense[i].has_sparse_windows = true;
          const SparseRun run = RunSparse(Context(), problem, dense[i], layer, rows);
          EXPECT_TRUE(SameFloats(run.out, want)) << PolicyText(dense[i]) << " first " << first;
          for (const BlockCounts& counts : run.counts) {
            EXPECT_EQ(counts.kept, counts.candidates);
            EXPECT_GT(counts.kept, 0);
          }
        }
      }
      // And the base is not dense, so that all this says something.
      SparsePolicy sparse = base;
      sparse.has_sparse_windows = true;
      EXPECT_FALSE(SameFloats(RunSparse(Context(), problem, sparse, layer, rows).out, want));
      // Layers with a window are dense unless the policy says otherwise.
      EXPECT_EQ(SameFloats(RunSparse(Context(), problem, base, layer, rows).out, want),
                sliding != 0);
    }
  }
  // One token below the limit the prompt is dense, at it no longer.
  SparsePolicy limit = base;
  limit.min_prompt_tokens = length - 1;
  const SparseRows rows = {.first = 0, .count = length, .prompt = length, .layer = 4};
  EXPECT_FALSE(SameFloats(RunSparse(Context(), problem, limit, problem.Layer(), rows).out,
                          RunDense(Context(), problem, problem.Layer(), rows)));
}

// A dense KV head has the bits of dense attention, and the others do not notice.
TEST_P(SparseRelationsTest, DenseHeadsLeaveTheOthersAlone) {
  const SparseProblem problem(MakeSparseInputs({.shape = kShape, .num_tokens = 900}), GetParam());
  const SparseRows rows = {.first = 0, .count = 900, .prompt = 900, .layer = 2};
  SparsePolicy policy = Selective();
  const SparseRun sparse = RunSparse(Context(), problem, policy, problem.Layer(), rows);
  policy.dense_heads = {{2, 1}, {3, 0}};
  const SparseRun mixed = RunSparse(Context(), problem, policy, problem.Layer(), rows);
  const std::vector<float> dense = RunDense(Context(), problem, problem.Layer(), rows);
  const int64_t half = int64_t{3} * 64;
  for (int64_t row = 0; row < 900; ++row) {
    const int64_t at = row * 2 * half;
    ASSERT_EQ(std::memcmp(&mixed.out[static_cast<size_t>(at)], &sparse.out[static_cast<size_t>(at)],
                          static_cast<size_t>(half) * sizeof(float)),
              0);
    ASSERT_EQ(std::memcmp(&mixed.out[static_cast<size_t>(at + half)],
                          &dense[static_cast<size_t>(at + half)],
                          static_cast<size_t>(half) * sizeof(float)),
              0);
  }
}

TEST_P(SparseRelationsTest, EveryInstructionSetGivesTheSameBits) {
  struct Case {
    AttentionShape shape;
    int64_t num_tokens;
    float soft_cap = 0;
    int64_t sliding = 0;
    float query_range = 1;
  };
  const std::vector<Case> cases = {
      {{3, 1, 64}, 1},           {{4, 1, 16}, 65},
      {{3, 1, 64}, 700},         {{8, 2, 80}, 500},
      {{1, 1, 128}, 620},        {{7, 1, 48}, 450, 6.0f},
      {{12, 1, 32}, 400},        {{4, 1, 256}, 330},
      {{2, 1, 64}, 600, 0, 250}, {{3, 1, 64}, 1100, 0, 0, 30.0f},
  };
  for (const Case& c : cases) {
    for (const uint32_t seed : {1u, 2u}) {
      const SparseProblem problem(MakeSparseInputs({.shape = c.shape,
                                                    .num_tokens = c.num_tokens,
                                                    .seed = seed,
                                                    .query_range = c.query_range}),
                                  GetParam());
      AttentionLayer layer = problem.Layer();
      layer.soft_cap = c.soft_cap;
      layer.sliding_window = c.sliding;
      for (const SparsePolicy& policy : Policies()) {
        // The portable build is slow: the last rows, and a tile that is cut.
        const int64_t count = std::min<int64_t>(c.num_tokens, 45);
        const SparseRows rows = {
            .first = c.num_tokens - count, .count = count, .prompt = c.num_tokens + 100};
        SCOPED_TRACE(testing::Message() << "seed " << seed << " head size " << c.shape.head_dim
                                        << " tokens " << c.num_tokens << ' ' << PolicyText(policy));
        const SparseRun want = RunSparse({.table = KernelsFor(Isa::kPortable), .pool = *pool_},
                                         problem, policy, layer, rows);
        for (const Isa isa : RunnableIsas()) {
          const SparseRun run =
              RunSparse({.table = KernelsFor(isa), .pool = *pool_}, problem, policy, layer, rows);
          EXPECT_TRUE(SameRuns(run, want)) << IsaName(isa);
        }
      }
    }
  }
}

// Chance is a function of seed and place, and all blocks have the same.
TEST_P(SparseRelationsTest, RandomEnergiesAreThoseOfTheirPlace) {
  const int64_t length = 2600;
  const SparseProblem problem(MakeSparseInputs({.shape = kShape, .num_tokens = length, .seed = 9}),
                              GetParam());
  SparsePolicy policy = Policies()[6];
  policy.share = 0.25;
  policy.energy_seed = 11;
  const SparseRows rows = {.first = 0, .count = length, .prompt = length, .layer = 3};
  const SparseRun run = RunSparse(Context(), problem, policy, problem.Layer(), rows);
  int64_t kept = 0;
  int64_t optional = 0;
  for (const KeptSelection& chosen : run.selections) {
    for (size_t i = 0; i < chosen.energies.size(); ++i) {
      ASSERT_EQ(chosen.energies[i],
                RandomEnergy({.seed = 11,
                              .layer = 3,
                              .kv_head = chosen.about.kv_head,
                              .tile = chosen.about.tile,
                              .block = chosen.about.blocks.low + static_cast<int64_t>(i)}));
    }
    if (chosen.about.is_dense || chosen.about.blocks.first < 12) continue;
    // Of the first ten optional blocks, which chance keeps as often as any other.
    for (int64_t block = 1; block <= 10; ++block) {
      kept += std::binary_search(chosen.kept.begin(), chosen.kept.end(), block) ? 1 : 0;
      ++optional;
    }
  }
  EXPECT_GT(optional, 500);
  EXPECT_NEAR(static_cast<double>(kept) / static_cast<double>(optional), 0.25, 0.05);
  policy.energy_seed = 12;
  EXPECT_FALSE(SameRuns(RunSparse(Context(), problem, policy, problem.Layer(), rows), run));
}

TEST_P(SparseRelationsTest, Conformance11PlacesOfBlocksChangeNothing) {
  SparseProblem problem(MakeSparseInputs({.shape = kShape, .num_tokens = 1100, .seed = 6}),
                        GetParam());
  const SparseRows rows = {.first = 0, .count = 1100, .prompt = 1100};
  for (const SparsePolicy& policy : Policies()) {
    const SparseRun want = RunSparse(Context(), problem, policy, problem.Layer(), rows);
    std::vector<size_t> order(problem.NumBlocks());
    std::iota(order.begin(), order.end(), size_t{0});
    std::mt19937 random(6);
    std::shuffle(order.begin(), order.end(), random);
    problem.PlaceBlocks(order);
    EXPECT_TRUE(SameRuns(RunSparse(Context(), problem, policy, problem.Layer(), rows), want));
    // Blocks that went to a file, or to another machine, and came back as bytes.
    std::vector<std::vector<std::byte>> saved;
    for (size_t i = 0; i < problem.NumBlocks(); ++i) {
      saved.emplace_back(problem.blocks()[i], problem.blocks()[i] + problem.BlockBytes());
    }
    std::shuffle(order.begin(), order.end(), random);
    problem.PlaceBlocks(order);
    for (size_t i = 0; i < saved.size(); ++i) {
      std::memset(problem.mutable_blocks()[i], 0xff, saved[i].size());
      std::memcpy(problem.mutable_blocks()[i], saved[i].data(), saved[i].size());
    }
    EXPECT_TRUE(SameRuns(RunSparse(Context(), problem, policy, problem.Layer(), rows), want));
  }
}

TEST_P(SparseRelationsTest, Conformance12ChunksOfWholeTilesChangeNothing) {
  const int64_t length = 1333;
  const SparseProblem problem(MakeSparseInputs({.shape = kShape, .num_tokens = length, .seed = 7}),
                              GetParam());
  for (const SparsePolicy& policy : Policies()) {
    const int64_t tile = TilePositions(policy, kShape.GroupSize());
    AttentionLayer layer = problem.Layer();
    if (policy.has_sparse_windows) layer.sliding_window = 400;
    const SparseRun want = RunSparse(Context(), problem, policy, layer,
                                     {.first = 0, .count = length, .prompt = length});
    for (const int64_t chunk : {tile, 3 * tile, int64_t{512}}) {
      SparseRun all;
      for (int64_t first = 0; first < length; first += chunk) {
        const SparseRun part =
            RunSparse(Context(), problem, policy, layer,
                      {.first = first, .count = std::min(chunk, length - first), .prompt = length});
        all.out.insert(all.out.end(), part.out.begin(), part.out.end());
        all.lse.insert(all.lse.end(), part.lse.begin(), part.lse.end());
        all.selections.insert(all.selections.end(), part.selections.begin(), part.selections.end());
      }
      EXPECT_TRUE(SameRuns(all, want)) << chunk << ' ' << PolicyText(policy);
    }
  }
}

// Two prompts with the same first 512 tokens: the second finds these blocks in place.
TEST_P(SparseRelationsTest, Conformance12SharedPrefixChangesNothing) {
  SparseProblem first(MakeSparseInputs({.shape = kShape, .num_tokens = 700, .seed = 8}),
                      GetParam());
  SparseInputs inputs = MakeSparseInputs({.shape = kShape, .num_tokens = 1000, .seed = 9});
  std::copy_n(first.inputs().k.begin(), 512 * inputs.kv_cols(), inputs.k.begin());
  std::copy_n(first.inputs().v.begin(), 512 * inputs.kv_cols(), inputs.v.begin());
  SparseProblem second(std::move(inputs), GetParam());
  for (const SparsePolicy& policy : Policies()) {
    const SparseRows rest = {.first = 512, .count = 488, .prompt = 1000};
    const SparseRun want = RowsOf(RunSparse(Context(), second, policy, second.Layer(),
                                            {.first = 0, .count = 1000, .prompt = 1000}),
                                  second, 512, 488);
    second.ShareBlocks(first, 8);
    const SparseRun run = RunSparse(Context(), second, policy, second.Layer(), rest);
    EXPECT_TRUE(SameFloats(run.out, want.out) && SameFloats(run.lse, want.lse));
  }
}

// A prompt, a chunk of another, and a third sequence's prompt with its answer behind, in one call.
TEST_P(SparseRelationsTest, Conformance13BatchesAndThreadsChangeNothing) {
  const SparseProblem a(MakeSparseInputs({.shape = kShape, .num_tokens = 600, .seed = 10}),
                        GetParam());
  const SparseProblem b(MakeSparseInputs({.shape = kShape, .num_tokens = 900, .seed = 11}),
                        GetParam());
  const SparseProblem c(MakeSparseInputs({.shape = kShape, .num_tokens = 530, .seed = 12}),
                        GetParam());
  const int64_t cols = a.inputs().q_cols();
  struct Part {
    const SparseProblem* problem;
    SparseRows rows;
  };
  // c: tile-cutting rows before the prompt's end at 517, and rows of the answer from there on.
  const std::vector<Part> parts = {{&a, {.first = 0, .count = 600, .prompt = 600}},
                                   {&b, {.first = 384, .count = 256, .prompt = 900}},
                                   {&c, {.first = 490, .count = 40, .prompt = 517}},
                                   {&c, {.first = 529, .count = 1, .prompt = 517}}};
  for (const SparsePolicy& policy : Policies()) {
    for (const int num_threads : {1, 3}) {
      const auto pool = *ThreadPool::Make(num_threads);
      const KernelContext context = {.table = KernelsFor(BestIsa()), .pool = *pool};
      std::vector<AttentionSequence> sequences;
      std::vector<int64_t> prompts;
      std::vector<float> q;
      for (const Part& part : parts) {
        sequences.push_back({.first_row = static_cast<int64_t>(q.size()) / cols,
                             .num_rows = part.rows.count,
                             .first_position = part.rows.first,
                             .blocks = part.problem->blocks()});
        prompts.push_back(part.rows.prompt);
        const auto begin = part.problem->inputs().q.begin() + part.rows.first * cols;
        q.insert(q.end(), begin, begin + part.rows.count * cols);
        // An empty sequence and a row that belongs to none.
        sequences.push_back({});
        prompts.push_back(5);
        q.insert(q.end(), static_cast<size_t>(cols), std::nanf(""));
      }
      const int64_t num_rows = static_cast<int64_t>(q.size()) / cols;
      std::vector<float> out(q.size(), 7.0f);
      const auto workspace = *AlignedBuffer<std::byte>::Allocate(
          SparsePrefillWorkspaceBytes(kShape, policy, sequences, num_threads));
      SparsePrefillAttention(context, {.attention = {.q = {q.data(), num_rows, cols},
                                                     .out = {out.data(), num_rows, cols},
                                                     .sequences = sequences,
                                                     .shape = kShape,
                                                     .layer = a.Layer(),
                                                     .workspace = workspace.span()},
                                       .policy = &policy,
                                       .prompt_tokens = prompts});
      std::vector<float> want;
      for (const Part& part : parts) {
        const SparseRun alone =
            RunSparse(Context(), *part.problem, policy, part.problem->Layer(), part.rows);
        want.insert(want.end(), alone.out.begin(), alone.out.end());
        want.insert(want.end(), static_cast<size_t>(cols), 7.0f);
      }
      EXPECT_TRUE(SameFloats(out, want)) << num_threads << ' ' << PolicyText(policy);
      // Rows of the answer are dense.
      const int64_t answer = 600 + 1 + 256 + 1 + (517 - 490);
      const std::vector<float> dense =
          RunDense(Context(), c, c.Layer(), {.first = 517, .count = 13});
      EXPECT_EQ(std::memcmp(out.data() + answer * cols, dense.data(), dense.size() * sizeof(float)),
                0);
    }
  }
}

TEST_P(SparseRelationsTest, Conformance14LaterTokensChangeNothing) {
  const int64_t length = 900;
  for (const SparsePolicy& policy : Policies()) {
    const int64_t tile = TilePositions(policy, kShape.GroupSize());
    SparseProblem problem(MakeSparseInputs({.shape = kShape, .num_tokens = length, .seed = 13}),
                          GetParam());
    const SparseRows rows = {.first = 0, .count = length, .prompt = length};
    const SparseRun before = RunSparse(Context(), problem, policy, problem.Layer(), rows);
    const int64_t changed = 15 * tile;  // first token of a tile
    const size_t from = static_cast<size_t>(changed * problem.inputs().kv_cols());
    for (size_t i = from; i < problem.inputs().k.size(); ++i) {
      problem.inputs().k[i] = std::nanf("");
      problem.inputs().v[i] = 3.0f;
    }
    problem.Write(changed, length - changed);
    const SparseRun after = RunSparse(Context(), problem, policy, problem.Layer(), rows);
    EXPECT_TRUE(SameFloats(RowsOf(after, problem, 0, changed).out,
                           RowsOf(before, problem, 0, changed).out));
    EXPECT_TRUE(std::isnan(after.out[static_cast<size_t>(changed * problem.inputs().q_cols())]));
  }
}

TEST_P(SparseRelationsTest, Conformance15RollbackAndRefillChangesNothing) {
  const int64_t length = 700;
  SparseProblem problem(MakeSparseInputs({.shape = kShape, .num_tokens = length, .seed = 14}),
                        GetParam());
  const SparseRows rows = {.first = 0, .count = length, .prompt = length};
  for (const SparsePolicy& policy : Policies()) {
    const SparseRun want = RunSparse(Context(), problem, policy, problem.Layer(), rows);
    // Other tokens from 100 on, enough of them to fill two blocks; then back.
    SparseInputs original = problem.inputs();
    std::fill(problem.inputs().k.begin() + 100 * original.kv_cols(), problem.inputs().k.end(),
              9.0f);
    std::fill(problem.inputs().v.begin() + 100 * original.kv_cols(), problem.inputs().v.end(),
              9.0f);
    problem.Write(100, 156);
    EXPECT_FALSE(SameRuns(RunSparse(Context(), problem, policy, problem.Layer(), rows), want));
    problem.inputs() = std::move(original);
    problem.Write(100, 200);
    EXPECT_TRUE(SameRuns(RunSparse(Context(), problem, policy, problem.Layer(), rows), want));
  }
}

// A query that is not a number spoils its own row, and has no say in what the tile keeps.
TEST_P(SparseRelationsTest, QueriesThatAreNotNumbersHaveNoVote) {
  const int64_t length = 500;
  SparseProblem problem(MakeSparseInputs({.shape = kShape, .num_tokens = length, .seed = 15}),
                        GetParam());
  const SparseRows rows = {.first = 0, .count = length, .prompt = length};
  const int64_t cols = problem.inputs().q_cols();
  for (const SparsePolicy& policy : Policies()) {
    const std::vector<float> q = problem.inputs().q;
    std::fill_n(problem.inputs().q.begin() + 301 * cols, cols, std::nanf(""));
    const SparseRun run = RunSparse(Context(), problem, policy, problem.Layer(), rows);
    for (int64_t i = 0; i < length * cols; ++i) {
      ASSERT_EQ(std::isnan(run.out[static_cast<size_t>(i)]), i / cols == 301) << i / cols;
    }
    for (const KeptSelection& chosen : run.selections) {
      for (const float energy : chosen.energies) ASSERT_TRUE(std::isfinite(energy));
    }
    problem.inputs().q = q;
  }
}

// Prompts at the edges of blocks, and prompts of one token all along.
TEST_P(SparseRelationsTest, ShortAndUniformPrompts) {
  for (const int64_t length : {1, 63, 64, 65, 128, 129}) {
    SparseInputs inputs = MakeSparseInputs({.shape = kShape, .num_tokens = length, .seed = 16});
    for (int64_t t = 1; t < length; ++t) {
      std::copy_n(inputs.k.begin(), inputs.kv_cols(), inputs.k.begin() + t * inputs.kv_cols());
      std::copy_n(inputs.v.begin(), inputs.kv_cols(), inputs.v.begin() + t * inputs.kv_cols());
      std::copy_n(inputs.q.begin(), inputs.q_cols(), inputs.q.begin() + t * inputs.q_cols());
    }
    const SparseProblem problem(std::move(inputs), GetParam());
    for (SparsePolicy policy : Policies()) {
      policy.last_tiles = 0;
      const SparseRun run = RunSparse(Context(), problem, policy, problem.Layer(),
                                      {.first = 0, .count = length, .prompt = length});
      // Whatever is kept, the output is the one value there is, or what its codes can say of it.
      const auto& v = problem.inputs().v;
      const float step = GetParam() == KvType::kF16
                             ? 0.0f
                             : std::fabs(*std::max_element(
                                   v.begin(), v.end(),
                                   [](float a, float b) { return std::fabs(a) < std::fabs(b); })) /
                                   127;
      for (int64_t i = 0; i < static_cast<int64_t>(run.out.size()); ++i) {
        const int64_t head = i % problem.inputs().q_cols() / 64;
        const float value = problem.inputs().v[static_cast<size_t>(head / 3 * 64 + i % 64)];
        ASSERT_NEAR(run.out[static_cast<size_t>(i)], value,
                    step / 2 + 1e-5f * (1 + std::fabs(value)));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, SparseRelationsTest, testing::Values(KvType::kF16, KvType::kQ8),
                         [](const testing::TestParamInfo<KvType>& type) {
                           return std::string(KvTypeName(type.param));
                         });

}  // namespace
}  // namespace baton
