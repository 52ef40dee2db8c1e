// All files of tests/data/flashprefill, or of another directory (kernels_test --vectors DIR), by
// the reference and by the operator.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <string_view>

#include "kernels/isa.h"
#include "kernels/test_sparse_vectors.h"

namespace baton {
namespace {

std::string& ChosenDirectory() {
  static std::string directory = BATON_TEST_DATA "/flashprefill";
  return directory;
}

}  // namespace

std::string VectorsDirectory() {
  return ChosenDirectory();
}

namespace {

using Json = nlohmann::json;

SparseReferenceArgs ReferenceOf(const VectorFile& file) {
  SparseReferenceArgs args = {.q = file.inputs.q.data(),
                              .k = file.inputs.k.data(),
                              .v = file.inputs.v.data(),
                              .num_heads = file.inputs.shape.num_heads,
                              .num_kv_heads = file.inputs.shape.num_kv_heads,
                              .head_dim = file.inputs.shape.head_dim,
                              .prompt = file.prompt,
                              .first_position = file.first_position,
                              .num_queries = file.num_queries,
                              .scale = file.json.at("params").at("scale").get<double>(),
                              .soft_cap = file.json.at("params").at("softcap").get<double>(),
                              .sliding = file.layer.sliding_window};
  ApplyPolicy(file.policy, args);
  args.alpha = file.json.at("params").at("alpha").get<double>();
  return args;
}

// What a file expects of one tile and KV head, beside what is there.
struct TileFacts {
  int64_t tile, first, last, low, high, scored_end, edge;
  int kv_head;
  bool is_dense;
  double log_max;
  std::vector<double> energies;
  std::vector<int64_t> kept, corrected;
};

void ExpectTile(const Json& want, const TileFacts& got, double energy_tolerance,
                double log_tolerance) {
  EXPECT_EQ(got.tile, want.at("tile").get<int64_t>());
  EXPECT_EQ(got.first, want.at("first").get<int64_t>());
  EXPECT_EQ(got.last, want.at("last").get<int64_t>());
  EXPECT_EQ(got.kv_head, want.at("head_kv").get<int>());
  EXPECT_EQ(got.is_dense, want.at("dense").get<bool>());
  EXPECT_EQ(got.low, want.at("lo").get<int64_t>());
  EXPECT_EQ(got.high, want.at("hi").get<int64_t>());
  EXPECT_EQ(got.scored_end, want.at("scored_end").get<int64_t>());
  EXPECT_EQ(got.edge, want.at("edge").get<int64_t>());
  EXPECT_EQ(got.kept, want.at("kept").get<std::vector<int64_t>>());
  EXPECT_EQ(got.corrected, want.at("corrected").get<std::vector<int64_t>>());
  if (want.at("energy").is_null()) return;
  const auto energies = want.at("energy").get<std::vector<double>>();
  ASSERT_EQ(got.energies.size(), energies.size());
  if (energies.empty()) return;
  EXPECT_NEAR(got.log_max, want.at("log_max").get<double>(), log_tolerance);
  const double largest = *std::max_element(energies.begin(), energies.end());
  for (size_t i = 0; i < energies.size(); ++i) {
    EXPECT_NEAR(got.energies[i], energies[i], energy_tolerance * largest) << "block " << i;
  }
}

// A result of one kind: "sparse" keeps only the kept blocks, "corrected" adds the means.
struct RowsUnderTest {
  const VectorFile& file;
  const char* kind;
  // The value of (position, head).
  std::function<ReferenceRow(int64_t position, int head)> row;
};

void ExpectRows(const RowsUnderTest& rows, double factor) {
  const VectorFile& file = rows.file;
  const Json& expect = file.json.at("expect");
  const int heads = file.inputs.shape.num_heads;
  const auto positions = expect.at("positions").get<std::vector<int64_t>>();
  for (size_t i = 0; i < positions.size(); ++i) {
    for (int h = 0; h < heads; ++h) {
      const ReferenceRow row = rows.row(positions[i], h);
      const auto want =
          expect.at("out").at(rows.kind)[i][static_cast<size_t>(h)].get<std::vector<double>>();
      for (size_t c = 0; c < want.size(); ++c) {
        ASSERT_NEAR(row.out[c], want[c], factor * file.tolerance("out"))
            << rows.kind << " position " << positions[i] << " head " << h << " c " << c;
      }
    }
  }
  const auto probes = expect.at("probe_positions").get<std::vector<int64_t>>();
  for (size_t i = 0; i < probes.size(); ++i) {
    for (int h = 0; h < heads; ++h) {
      const ReferenceRow row = rows.row(probes[i], h);
      double probe = 0;
      for (size_t c = 0; c < row.out.size(); ++c) {
        probe += (static_cast<double>((37 * c + 11) % 257) / 128 - 1) * row.out[c];
      }
      const size_t head = static_cast<size_t>(h);
      ASSERT_NEAR(row.lse, expect.at("lse").at(rows.kind)[i][head].get<double>(),
                  factor * file.tolerance("lse"))
          << rows.kind << " position " << probes[i] << " head " << h;
      ASSERT_NEAR(probe, expect.at("probe").at(rows.kind)[i][head].get<double>(),
                  factor * file.tolerance("probe"))
          << rows.kind << " position " << probes[i] << " head " << h;
    }
  }
}

const ReferenceTile& TileOf(const std::vector<ReferenceTile>& tiles, int64_t position,
                            int kv_head) {
  for (const ReferenceTile& tile : tiles) {
    if (tile.kv_head == kv_head && tile.first <= position && position <= tile.last) return tile;
  }
  ADD_FAILURE() << "no tile has position " << position;
  return tiles.front();
}

// The files print nine digits, so the reference agrees to 1e-7 of whatever they hold.
void CheckReference(const VectorFile& file) {
  const SparseReference reference(ReferenceOf(file));
  const std::vector<ReferenceTile> tiles = reference.Select();
  const Json& want = file.json.at("expect");
  ASSERT_EQ(tiles.size(), want.at("tiles").size());
  int64_t kept = 0;
  int64_t candidates = 0;
  for (size_t i = 0; i < tiles.size(); ++i) {
    const ReferenceTile& tile = tiles[i];
    kept += static_cast<int64_t>(tile.kept.size());
    candidates += tile.high - tile.low + 1;
    ExpectTile(want.at("tiles")[i],
               {.tile = tile.tile,
                .first = tile.first,
                .last = tile.last,
                .low = tile.low,
                .high = tile.high,
                .scored_end = tile.scored_end,
                .edge = tile.edge,
                .kv_head = tile.kv_head,
                .is_dense = tile.dense,
                .log_max = tile.log_max,
                .energies = tile.energies,
                .kept = tile.kept,
                .corrected = tile.corrected},
               1e-7, 1e-6);
  }
  EXPECT_EQ(kept, want.at("kept").get<int64_t>());
  EXPECT_EQ(candidates, want.at("candidates").get<int64_t>());
  const int group = file.inputs.shape.GroupSize();
  const auto attend = [&](bool is_corrected) {
    return [&, is_corrected](int64_t position, int head) {
      const ReferenceTile& tile = TileOf(tiles, position, head / group);
      return reference.Attend(position, head, tile.kept,
                              is_corrected ? tile.corrected : std::vector<int64_t>());
    };
  };
  const double factor = 1e-2;
  ExpectRows({file, "dense", [&](int64_t p, int h) { return reference.AttendDense(p, h); }},
             factor);
  ExpectRows({file, "sparse", attend(false)}, factor);
  ExpectRows({file, "corrected", attend(true)}, factor);
}

// The problem whose rows before the call's first have no queries.
SparseProblem ProblemOf(const VectorFile& file) {
  SparseInputs inputs = file.inputs;
  inputs.q.insert(inputs.q.begin(), static_cast<size_t>(file.first_position * inputs.q_cols()),
                  std::nanf(""));
  return SparseProblem(std::move(inputs));
}

void CheckOperator(const VectorFile& file, const KernelContext& context) {
  const SparseProblem problem = ProblemOf(file);
  AttentionLayer layer = problem.Layer();
  layer.scale = file.layer.scale;
  layer.soft_cap = file.layer.soft_cap;
  layer.sliding_window = file.layer.sliding_window;
  const int heads = file.inputs.shape.num_heads;
  const int d = file.inputs.shape.head_dim;
  const Json& want = file.json.at("expect");
  for (const char* kind : {"dense", "sparse", "corrected"}) {
    SparsePolicy policy = file.policy;
    policy.has_correction = std::string_view(kind) == "corrected";
    if (std::string_view(kind) == "dense") policy.rule = SelectionRule::kAll;
    const SparseRun run =
        RunSparse(context, problem, policy, layer,
                  {.first = file.first_position, .count = file.num_queries, .prompt = file.prompt});
    ExpectRows({file, kind,
                [&](int64_t position, int head) {
                  const int64_t at = (position - file.first_position) * heads + head;
                  ReferenceRow row;
                  const auto begin = run.out.begin() + at * d;
                  row.out.assign(begin, begin + d);
                  row.lse = static_cast<double>(run.lse[static_cast<size_t>(at)]);
                  return row;
                }},
               1.0);
    if (!policy.has_correction) continue;
    ASSERT_EQ(run.selections.size(), want.at("tiles").size());
    for (size_t i = 0; i < run.selections.size(); ++i) {
      const KeptSelection& chosen = run.selections[i];
      SCOPED_TRACE(i);
      ExpectTile(want.at("tiles")[i],
                 {.tile = chosen.about.tile,
                  .first = chosen.about.rows.first_position,
                  .last = chosen.about.rows.last_position,
                  .low = chosen.about.blocks.low,
                  .high = chosen.about.blocks.last,
                  .scored_end = chosen.about.blocks.scored_end,
                  .edge = chosen.about.blocks.edge,
                  .kv_head = chosen.about.kv_head,
                  .is_dense = chosen.about.is_dense,
                  .log_max = static_cast<double>(chosen.about.largest_logit),
                  .energies = {chosen.energies.begin(), chosen.energies.end()},
                  .kept = chosen.kept,
                  .corrected = chosen.corrected},
                 file.tolerance("energy"), file.tolerance("lse"));
    }
    BlockCounts all;
    for (const BlockCounts& of_head : run.counts) {
      all.kept += of_head.kept;
      all.candidates += of_head.candidates;
    }
    EXPECT_EQ(all.kept, want.at("kept").get<int64_t>());
    EXPECT_EQ(all.candidates, want.at("candidates").get<int64_t>());
  }
}

// What the blocks' records hold as means, by the files' probes; blocks that are not full have none.
void CheckMeans(const VectorFile& file) {
  SparseProblem problem = ProblemOf(file);
  const int d = file.inputs.shape.head_dim;
  const Json& expect = file.json.at("expect");
  const int halves = file.policy.block_tokens / 64;
  const auto counts = expect.at("block_counts").get<std::vector<int>>();
  for (size_t j = 0; j < counts.size(); ++j) {
    if (counts[j] != file.policy.block_tokens) continue;
    for (int h = 0; h < file.inputs.shape.num_kv_heads; ++h) {
      double probes[2] = {0, 0};
      for (int half = 0; half < halves; ++half) {
        const std::byte* record =
            problem.blocks()[j * static_cast<size_t>(halves) + static_cast<size_t>(half)] +
            problem.Layer().record_offset + static_cast<size_t>(h) * problem.Record().Bytes();
        std::vector<float> means(static_cast<size_t>(2 * d));
        std::memcpy(means.data(), record + problem.Record().StatisticsOffsetBytes(),
                    means.size() * sizeof(float));
        for (int c = 0; c < 2 * d; ++c) {
          probes[c / d] += ((37 * (c % d) + 11) % 257 / 128.0 - 1) *
                           static_cast<double>(means[static_cast<size_t>(c)]) / halves;
        }
      }
      const size_t head = static_cast<size_t>(h);
      EXPECT_NEAR(probes[0], expect.at("k_mean_probe")[j][head].get<double>(),
                  file.tolerance("mean"));
      EXPECT_NEAR(probes[1], expect.at("v_mean_probe")[j][head].get<double>(),
                  file.tolerance("mean"));
    }
  }
}

TEST(SparseVectorsTest, GeneratorGivesTheStatedNumbers) {
  VectorGenerator generator(103);
  for (const uint64_t want : {1316969692u, 205499296u, 81687422u, 1097098812u}) {
    EXPECT_EQ(generator.Next(), want);
  }
}

TEST(SparseVectorsTest, Conformance01And02ReferenceAgreesWithAllFiles) {
  const auto paths = VectorPaths();
  ASSERT_FALSE(paths.empty()) << VectorsDirectory();
  for (const auto& path : paths) {
    SCOPED_TRACE(path.string());
    const VectorFile file = ReadVectorFile(path);
    ASSERT_TRUE(file.checks_out);
    CheckReference(file);
    if (HasFatalFailure()) return;
  }
}

TEST(SparseVectorsTest, Conformance02OperatorAgreesWithAllFiles) {
  const auto pool = *ThreadPool::Make(2);
  const auto paths = VectorPaths();
  ASSERT_FALSE(paths.empty()) << VectorsDirectory();
  size_t num_checked = 0;
  for (const auto& path : paths) {
    SCOPED_TRACE(path.string());
    const VectorFile file = ReadVectorFile(path);
    ASSERT_TRUE(file.checks_out);
    if (file.policy.block_tokens % 64 != 0) continue;  // for the reference only
    ++num_checked;
    CheckMeans(file);
    for (const Isa isa : RunnableIsas()) {
      // The portable build is slow, and bit-equal to the others by other tests.
      if (isa == Isa::kPortable && file.num_queries > 500) continue;
      SCOPED_TRACE(IsaName(isa));
      CheckOperator(file, {.table = KernelsFor(isa), .pool = *pool});
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(num_checked, 0u);
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--vectors" && i + 1 < argc) {
      baton::ChosenDirectory() = argv[++i];
    } else {
      std::fprintf(stderr, "usage: kernels_test [--vectors DIR] [--gtest_...]\n");
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
