#include "bench/model_suite.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/model_work.h"
#include "engine/test_tiny_file.h"
#include "format/gguf.h"

namespace baton {
namespace {

// Multiply-adds of one row in the matrices of a layer of TinyModel before attention and after it,
// and in its output matrix.
constexpr double kBeforeMacs = 64 * 64 + 32 * 64 + 32 * 64;
constexpr double kAfterMacs = 64 * 64 + 2 * 128 * 64 + 64 * 128;
constexpr double kLayerMacs = kBeforeMacs + kAfterMacs;
constexpr double kOutputMacs = 320 * 64;
// Multiply-adds of one row and one key in all heads of a layer: scores and values.
constexpr double kPairMacs = 2 * 4 * 16;
// Bytes of one key and value in all KV heads of a layer, in binary16.
constexpr double kTokenBytes = 2 * 2 * 16 * 2;

Model LoadTiny(const TinyFile& file, ThreadPool& pool) {
  const Result<GgufFile> gguf = GgufFile::Open(file.path());
  CHECK(gguf.has_value());
  Result<Model> model = Model::Load(*gguf, pool, [](uint64_t, uint64_t) {});
  CHECK(model.has_value());
  return *std::move(model);
}

TEST(ModelWorkTest, CountsWhatTheSizesSay) {
  const TinyFile file(TinyModel{});
  const auto pool = *ThreadPool::Make(1);
  const Model model = LoadTiny(file, *pool);
  double weight_bytes = 0;
  for (const auto& part : WeightMemory(model)) weight_bytes += static_cast<double>(part.size());
  EXPECT_EQ(weight_bytes, 4 * (2 * kLayerMacs + kOutputMacs));  // f32, tied output counted once

  // Three rows behind five tokens see 6 + 7 + 8 keys; one of them has logits.
  const WorkRows prefill = {.first_position = 5, .num_rows = 3, .num_logit_rows = 1};
  const ModelWork work = WorkOfStep(model, {}, {&prefill, 1});
  EXPECT_EQ(work.integer_macs, 0);
  EXPECT_EQ(work.float_macs,
            3 * kLayerMacs + 3 * kBeforeMacs + kAfterMacs + 2 * 21 * kPairMacs + kOutputMacs);
  EXPECT_EQ(work.bytes, weight_bytes + 2 * 8 * kTokenBytes);

  // Without logits the last layer ends with its keys and values.
  const WorkRows chunk = {.first_position = 5, .num_rows = 3, .num_logit_rows = 0};
  const ModelWork part = WorkOfStep(model, {}, {&chunk, 1});
  EXPECT_EQ(part.float_macs, 3 * kLayerMacs + 3 * kBeforeMacs + 21 * kPairMacs);
  EXPECT_EQ(part.bytes, 4 * (kLayerMacs + kBeforeMacs) + 8 * kTokenBytes);

  // Two sequences share the weights, not the cache.
  const WorkRows decode[] = {{.first_position = 0, .num_rows = 1, .num_logit_rows = 1},
                             {.first_position = 9, .num_rows = 1, .num_logit_rows = 1}};
  const ModelWork step = WorkOfStep(model, {}, decode);
  EXPECT_EQ(step.float_macs, 2 * (2 * kLayerMacs + 11 * kPairMacs) + 2 * kOutputMacs);
  EXPECT_EQ(step.bytes, weight_bytes + 2 * 11 * kTokenBytes);
}

TEST(ModelWorkTest, QuantizedMatricesAreIntegersAndExactInputsCountTwice) {
  const TinyFile file(TinyModel{.type = DType::kQ8_0});
  const auto pool = *ThreadPool::Make(1);
  const Model model = LoadTiny(file, *pool);
  const WorkRows row = {.first_position = 0, .num_rows = 1, .num_logit_rows = 1};
  const ModelWork fast = WorkOfStep(model, {}, {&row, 1});
  const double macs = 2 * kLayerMacs + kOutputMacs;
  EXPECT_EQ(fast.integer_macs, macs);
  EXPECT_EQ(fast.float_macs, 2 * kPairMacs);
  EXPECT_EQ(WorkOfStep(model, {.precision = Precision::kExact}, {&row, 1}).integer_macs, 2 * macs);
}

TEST(ModelWorkTest, ASlidingWindowHidesOldKeys) {
  TinyModel tiny{.architecture = "gemma3", .sliding_window = 8};
  tiny.layers = 1;
  const TinyFile file(tiny);
  const auto pool = *ThreadPool::Make(1);
  const Model model = LoadTiny(file, *pool);
  const int64_t window = model.spec().layers[0].sliding_window;
  ASSERT_EQ(window, 8);
  const WorkRows one = {.first_position = 0, .num_rows = 1, .num_logit_rows = 1};
  const WorkRows deep = {.first_position = 100, .num_rows = 1, .num_logit_rows = 1};
  const ModelWork shallow_work = WorkOfStep(model, {}, {&one, 1});
  const ModelWork deep_work = WorkOfStep(model, {}, {&deep, 1});
  EXPECT_EQ(deep_work.float_macs - shallow_work.float_macs, 7 * kPairMacs);
  EXPECT_EQ(deep_work.bytes - shallow_work.bytes, 7 * kTokenBytes);
}

ModelReport RunTiny(const ModelSuiteOptions& options) {
  const Result<ModelReport> report = BenchModel(
      options, [](const std::string&) {}, [](uint64_t, uint64_t) {});
  EXPECT_TRUE(report.has_value()) << report.error().message;
  return report.value_or(ModelReport{});
}

TEST(ModelSuiteTest, HasARowForEachQuestion) {
  const TinyFile file(TinyModel{.type = DType::kQ4_0});
  const ModelReport report = RunTiny({.path = file.path(),
                                      .isa = BestIsa(),
                                      .prompts = {5, 40},
                                      .depths = {3, 130},
                                      .batches = {1, 3},
                                      .threads = {1, 2},
                                      .chunk_tokens = 16,
                                      .num_rounds = 2,
                                      .max_row_seconds = 5});
  ASSERT_EQ(report.rows.size(), 2u * 5u);
  for (size_t i = 0; i < report.rows.size(); ++i) {
    const ModelRow& row = report.rows[i];
    EXPECT_EQ(row.num_threads, i < 5 ? 1 : 2);
    EXPECT_EQ(row.phase, i % 5 < 2 ? BenchPhase::kPrefill : BenchPhase::kDecode);
    EXPECT_EQ(row.seconds.count, 2);
    EXPECT_GT(row.tokens_per_second, 0);
    EXPECT_GT(row.limit_tokens_per_second, 0);
    EXPECT_LE(row.share, 1.1);
    EXPECT_GT(row.share, 0);
  }
  EXPECT_EQ(report.rows[1].prompt_tokens, 40);
  EXPECT_EQ(report.rows[3].depth, 130);
  EXPECT_EQ(report.rows[4].num_sequences, 3);
  EXPECT_EQ(report.rows[4].depth, 3);
  EXPECT_NEAR(report.rows[4].tokens_per_second, 3 / report.rows[4].seconds.median, 1e-6);
  EXPECT_EQ(report.architecture, "llama");
  EXPECT_GT(report.weight_bytes, 0u);
  EXPECT_GT(report.peak_resident_bytes, report.weight_bytes);
  // Three blocks for the depth of 130; three sequences at depth 3 need as many.
  EXPECT_EQ(report.kv_bytes % 3, 0u);
}

TEST(ModelSuiteTest, TooMuchForTheMemoryIsRefusedWithNumbers) {
  const TinyFile file(TinyModel{});
  const Result<ModelReport> report = BenchModel(
      {.path = file.path(),
       .isa = BestIsa(),
       .prompts = {},
       .depths = {int64_t{1} << 20},
       .batches = {900},
       .threads = {1},
       .chunk_tokens = 16,
       .num_rounds = 1},
      [](const std::string&) {}, [](uint64_t, uint64_t) {});
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code, ErrorCode::kExhausted);
  EXPECT_NE(report.error().message.find("MiB"), std::string::npos);
}

TEST(ModelSuiteTest, AMissingFileIsSaidSo) {
  const Result<ModelReport> report = BenchModel(
      {.path = "/nowhere.gguf", .threads = {1}}, [](const std::string&) {},
      [](uint64_t, uint64_t) {});
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code, ErrorCode::kNotFound);
}

ModelReport TwoRows() {
  ModelReport report;
  report.path = "/models/a-model-with-quite-a-long-name-as-they-are-today.gguf";
  report.architecture = "llama";
  report.weight_types = "Q4_1 x 211";
  report.weight_bytes = 94'700'000;
  ModelRow prefill;
  prefill.prompt_tokens = 512;
  prefill.num_threads = 2;
  prefill.seconds = {.median = 0.25, .min = 0.25, .max = 0.5, .spread = 0.5, .count = 3};
  prefill.tokens_per_second = 2048;
  prefill.limit_tokens_per_second = 4096;
  prefill.share = 0.5;
  prefill.bound_by = "arithmetic";
  ModelRow decode = prefill;
  decode.phase = BenchPhase::kDecode;
  decode.prompt_tokens = 0;
  decode.depth = 8000;
  decode.num_sequences = 16;
  report.rows = {prefill, decode};
  return report;
}

TEST(ModelTextTest, JsonCsvAndTableHaveTheRows) {
  const nlohmann::json json = nlohmann::json::parse(ModelAsJson(TwoRows()));
  EXPECT_EQ(json["rows"].size(), 2u);
  EXPECT_EQ(json["rows"][0]["phase"], "prefill");
  EXPECT_EQ(json["rows"][0]["prompt_tokens"], 512);
  EXPECT_EQ(json["rows"][1]["depth"], 8000);
  EXPECT_EQ(json["rows"][1]["sequences"], 16);
  EXPECT_EQ(json["memory"]["weight_bytes"], 94'700'000);

  std::istringstream csv(ModelAsCsv(TwoRows()));
  std::string line;
  int lines = 0;
  for (; std::getline(csv, line); ++lines) {
    EXPECT_EQ(std::count(line.begin(), line.end(), ','), 13) << line;
  }
  EXPECT_EQ(lines, 3);

  std::istringstream text(ModelAsText(TwoRows(), 0));
  while (std::getline(text, line)) EXPECT_LE(line.size(), 100u) << line;
}

TEST(ModelTextTest, ThePlotHasOnlyPanelsWithPoints) {
  const std::string svg = ModelAsSvg(TwoRows());
  EXPECT_NE(svg.find(">Prefill<"), std::string::npos);
  EXPECT_EQ(svg.find(">Decode, one sequence<"), std::string::npos);
  EXPECT_NE(svg.find(">Decode at depth 8000, all sequences<"), std::string::npos);
  EXPECT_NE(svg.find(">2 threads<"), std::string::npos);
}

}  // namespace
}  // namespace baton
