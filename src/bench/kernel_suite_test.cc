#include "bench/kernel_suite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "bench/kernel_timing.h"
#include "bench/random_weights.h"
#include "kernels/panel.h"
#include "tensor/dequantize.h"
#include "tensor/half.h"

namespace baton {
namespace {

KernelReport RunSuite(const KernelSuiteOptions& options) {
  const Result<KernelReport> report = BenchKernels(options, [](const std::string&) {});
  EXPECT_TRUE(report.has_value());
  return report.value_or(KernelReport{});
}

KernelSuiteOptions Quick() {
  return {.isas = {RunnableIsas().begin(), RunnableIsas().end()},
          .types = KernelTypes(),
          .precisions = {Precision::kFast, Precision::kExact},
          .shapes = {},
          .max_bytes = uint64_t{64} << 20,
          .is_quick = true};
}

TEST(KernelSuiteTest, EveryKernelRunsAndIsRight) {
  const KernelReport report = RunSuite(Quick());
  std::set<std::string> seen;
  for (const KernelRow& row : report.rows) {
    EXPECT_TRUE(row.is_right) << row.operation << ' ' << row.type << ' ' << row.isa;
    EXPECT_GT(row.rate, 0) << row.operation;
    EXPECT_FALSE(row.limits.empty());
    EXPECT_EQ(row.sparse_cost.has_value(),
              row.operation == "sparse-prefill-attention" && row.type != "dense");
    seen.insert(row.operation + "/" + row.type + "/" + row.precision + "/" +
                std::string(IsaName(row.isa)));
  }
  for (const Isa isa : RunnableIsas()) {
    for (const DType type : KernelTypes()) {
      const std::string name = "linear/" + std::string(DTypeName(type));
      const std::string end = "/" + std::string(IsaName(isa));
      if (IsQuantized(*PanelTypeOf(type))) {
        EXPECT_TRUE(seen.contains(name + "/fast" + end)) << name << end;
        EXPECT_TRUE(seen.contains(name + "/exact" + end)) << name << end;
      } else {
        EXPECT_TRUE(seen.contains(name + "/" + end)) << name << end;
      }
    }
    for (const char* operation :
         {"prefill-attention/f16", "prefill-attention/q8", "decode-attention/f16",
          "decode-attention/q8", "rms-norm/", "kv-write/"}) {
      EXPECT_TRUE(seen.contains(std::string(operation) + "//" + std::string(IsaName(isa))));
    }
    for (const char* variant : {"dense", "mean", "far 4"}) {
      EXPECT_TRUE(seen.contains("sparse-prefill-attention/" + std::string(variant) + "//" +
                                std::string(IsaName(isa))));
    }
  }
}

// The stages of one round are the overhead; medians of several are so but for noise.
TEST(KernelSuiteTest, StagesOfSparseAttentionSumToItsOverhead) {
  KernelSuiteOptions options = Quick();
  options.isas = {BestIsa()};
  options.has_linear = options.has_prefill_attention = options.has_decode_attention = false;
  options.has_row_operations = false;
  const KernelReport report = RunSuite(options);
  ASSERT_EQ(report.rows.size(), 3u);
  for (const KernelRow& row : report.rows) {
    if (row.type == "dense") continue;
    ASSERT_TRUE(row.sparse_cost.has_value());
    EXPECT_GT(row.sparse_cost->kept_rate, 0);
    double sum = 0;
    for (const auto& [stage, part] : row.sparse_cost->stages) sum += part;
    EXPECT_NEAR(row.sparse_cost->overhead, sum, 1e-9 * sum);
  }
}

// Whatever is measured, nothing is faster than the limit that binds it, but for what a noisy
// machine adds.
TEST(KernelSuiteTest, NoShareIsAboveTheLimit) {
  KernelSuiteOptions options = Quick();
  options.isas = {BestIsa()};
  options.types = {DType::kQ4_0, DType::kF32};
  options.has_prefill_attention = options.has_decode_attention = false;
  options.has_sparse_attention = false;
  options.has_row_operations = false;
  options.shapes = {{64, 512, 1024}};
  options.seconds_per_row = 0.1;
  options.is_quick = false;
  for (const KernelRow& row : RunSuite(options).rows) {
    for (const LimitShare& share : row.limits) {
      // The integers of quantized weights are faster than f32 fma.
      if (row.type == "Q4_0" && share.limit == "fma") continue;
      EXPECT_LE(share.share, 1.1) << row.type << ' ' << share.limit;
      EXPECT_GT(share.share, 0.01) << row.type << ' ' << share.limit;
    }
  }
}

KernelReport OneRow() {
  KernelRow row;
  row.operation = "linear";
  row.type = "Q4_0";
  row.precision = "fast";
  row.isa = Isa::kAvx2;
  row.num_threads = 1;
  row.shape = {{"rows", 4}, {"outputs", 4096}, {"inputs", 1024}};
  row.seconds = {.median = 0.002, .min = 0.001, .max = 0.004, .spread = 0.05, .count = 9};
  row.unit = "GB/s";
  row.rate = 12.5;
  row.limits = {{.limit = "read", .limit_rate = 2e10, .share = 0.625}};
  row.comparison = {.of = "time of 1 row", .ratio = 1.25};
  row.sparse_cost = {
      .kept_rate = 0.9, .overhead = 1.5, .stages = {{"score", 1.0}, {"correct", 0.5}}};
  KernelReport report;
  report.rows = {row};
  report.notes = {"a note"};
  return report;
}

TEST(KernelTextTest, JsonHasTheRow) {
  const nlohmann::json json = nlohmann::json::parse(KernelsAsJson(OneRow()));
  const nlohmann::json& row = json["rows"].at(0);
  EXPECT_EQ(row["operation"], "linear");
  EXPECT_EQ(row["shape"]["outputs"], 4096);
  EXPECT_EQ(row["seconds"]["median"], 0.002);
  EXPECT_EQ(row["limits"]["read"]["share"], 0.625);
  EXPECT_EQ(row["compared"]["ratio"], 1.25);
  EXPECT_EQ(row["sparse"]["kept_rate"], 0.9);
  EXPECT_EQ(row["sparse"]["overhead"], 1.5);
  EXPECT_EQ(row["sparse"]["stages"]["correct"], 0.5);
  EXPECT_EQ(row["verified"], true);
  EXPECT_EQ(json["notes"].at(0), "a note");
}

TEST(KernelTextTest, CsvLinesHaveAsManyFieldsAsTheHeading) {
  std::istringstream lines(KernelsAsCsv(OneRow()));
  std::string heading, line;
  std::getline(lines, heading);
  std::getline(lines, line);
  EXPECT_EQ(std::count(heading.begin(), heading.end(), ','),
            std::count(line.begin(), line.end(), ','));
  EXPECT_TRUE(
      line.starts_with("linear,Q4_0,fast,avx2,1,rows x outputs x inputs,"
                       "4x4096x1024,0.002,0.001,0.004,0.05,9,12.5,GB/s,,,0.625,"))
      << line;
  EXPECT_FALSE(std::getline(lines, line));
}

TEST(KernelTextTest, TablesFitAHundredColumns) {
  KernelReport report = OneRow();
  report.rows.push_back(report.rows[0]);
  report.rows[1].shape = {{"rows", 16}, {"outputs", 1048576}, {"inputs", 16384}};
  report.rows[1].is_right = false;
  std::istringstream text(KernelsAsText(report, 0));
  for (std::string line; std::getline(text, line);) EXPECT_LE(line.size(), 100u) << line;
  EXPECT_NE(KernelsAsText(report, 0).find("WRONG BITS"), std::string::npos);
}

// A work that takes twice as long as another has half its share and twice its time.
TEST(KernelTimingTest, SharesAndComparisonsFollowFromTheTimes) {
  const auto spin = [](double seconds) {
    ThreadCpuClock clock;
    const double end = clock.NowSeconds() + seconds;
    while (clock.NowSeconds() < end) {
    }
  };
  std::vector<TimedWork> works;
  for (const double milliseconds : {2.0, 4.0}) {
    works.push_back({.row = {},
                     .run = [=] { spin(milliseconds * 1e-3); },
                     .amount = 8e6,
                     .macs = 1e6,
                     .bytes = 0});
  }
  const TimingPlan plan = {
      .yardsticks = {{"read", {[=] { spin(1e-3); }, 1e9}}, {"fma", {[=] { spin(1e-3); }, 1e6}}},
      .timing = {.sample_seconds = 0, .min_seconds = 0, .min_rounds = 5, .max_rounds = 5},
      .compare_time_with_first = "the other"};
  const std::vector<KernelRow> rows = TimeRows(std::move(works), plan);
  ASSERT_EQ(rows.size(), 2u);
  ASSERT_EQ(rows[0].limits.size(), 1u);  // no bytes, no share of reading
  EXPECT_EQ(rows[0].limits[0].limit, "fma");
  EXPECT_NEAR(rows[0].limits[0].share, 0.5, 0.1);
  EXPECT_NEAR(rows[1].limits[0].share, 0.25, 0.05);
  EXPECT_NEAR(rows[0].rate, 4.0, 0.8);
  EXPECT_FALSE(rows[0].comparison.has_value());
  EXPECT_NEAR(rows[1].comparison.value().ratio, 2.0, 0.4);
}

TEST(RandomWeightsTest, RowsAreFiniteAndOfEverydaySize) {
  constexpr int64_t kInputs = 512;
  constexpr size_t kRows = 70;
  for (const DType type : KernelTypes()) {
    const size_t row_bytes = *RowBytes(type, kInputs);
    std::vector<std::byte> bytes(kRows * row_bytes);
    FillWeights({.type = type, .num_inputs = kInputs, .seed = 3}, bytes);
    std::vector<float> row(kInputs);
    double most = 0;
    double sum = 0;
    for (size_t r = 0; r < kRows; ++r) {
      ASSERT_TRUE(DequantizeRow(type, bytes.data() + r * row_bytes, row).has_value());
      for (const float x : row) {
        ASSERT_TRUE(std::isfinite(x)) << type;
        most = std::max<double>(most, std::abs(x));
        sum += std::abs(x);
      }
    }
    EXPECT_LT(most, 256) << type;
    EXPECT_GT(sum / (kRows * kInputs), 1e-3) << type;
    // Rows differ from each other, and repeat after 64.
    EXPECT_NE(std::memcmp(bytes.data(), bytes.data() + row_bytes, row_bytes), 0) << type;
    EXPECT_EQ(std::memcmp(bytes.data(), bytes.data() + 64 * row_bytes, row_bytes), 0) << type;
  }
}

TEST(RandomWeightsTest, FloatsAndHalvesStayInTheirRange) {
  std::vector<float> floats(1000);
  FillFloats(1, floats);
  std::vector<uint16_t> halves(1000);
  FillHalves(1, halves);
  for (size_t i = 0; i < floats.size(); ++i) {
    EXPECT_LE(std::abs(floats[i]), 2.0f);
    const float half = std::abs(HalfToFloat(halves[i]));
    EXPECT_GE(half, 0.5f);
    EXPECT_LT(half, 1.0f);
  }
  EXPECT_GT(*std::max_element(floats.begin(), floats.end()), 1.9f);
  EXPECT_LT(*std::min_element(floats.begin(), floats.end()), -1.9f);
}

}  // namespace
}  // namespace baton
