#include "bench/limits.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/limit_work.h"
#include "tensor/aligned_buffer.h"

namespace baton {
namespace {

LimitsReport QuickReport(int max_threads) {
  const Result<LimitsReport> report =
      MeasureLimits({.max_threads = max_threads, .max_bytes = uint64_t{64} << 20, .is_quick = true},
                    [](const std::string&) {});
  EXPECT_TRUE(report.has_value());
  return report.value_or(LimitsReport{});
}

TEST(LimitsTest, EveryInstructionSetAndEveryLevelHasARow) {
  const LimitsReport report = QuickReport(3);
  ASSERT_EQ(report.arithmetic.size(), RunnableIsas().size() + 1);
  for (size_t i = 0; i < RunnableIsas().size(); ++i) {
    EXPECT_EQ(report.arithmetic[i].isa, RunnableIsas()[i]);
    EXPECT_EQ(report.arithmetic[i].num_threads, 1);
  }
  EXPECT_EQ(report.arithmetic.back().num_threads, 3);
  std::vector<std::string> rows;
  for (const ReadLimit& read : report.reads) {
    rows.push_back(read.from + " " + std::to_string(read.num_threads));
  }
  EXPECT_EQ(rows,
            (std::vector<std::string>{"L1 1", "L2 1", "L3 1", "memory 1", "memory 2", "memory 3"}));
}

// No core of today does a multiply-add of f32 slower than 10 million times a second, none faster
// than 10^12 times, even this machine's neighbours permitting.
TEST(LimitsTest, RatesAreThoseOfAComputer) {
  const LimitsReport report = QuickReport(1);
  for (const ArithmeticLimit& limit : report.arithmetic) {
    for (const LimitRate& rate : {limit.float_rate, limit.integer_rate}) {
      EXPECT_GT(rate.median, 1e7) << limit.isa;
      EXPECT_LT(rate.median, 1e13) << limit.isa;
      EXPECT_GE(rate.best, rate.median);
    }
  }
  for (const ReadLimit& read : report.reads) {
    EXPECT_GT(read.rate.median, 1e8) << read.from;
    EXPECT_LT(read.rate.median, 1e13) << read.from;
  }
}

TEST(LimitsTest, LessMemoryThanCachesIsSaid) {
  const LimitsReport report = QuickReport(1);
  ASSERT_FALSE(report.notes.empty());
  EXPECT_NE(report.notes.back().find("less than twice the largest cache"), std::string::npos);
}

TEST(LimitsTest, JsonHasTheNumbersOfTheReport) {
  LimitsReport report;
  report.machine = {.cpu_name = "Abacus \xff",
                    .num_cpus = 4,
                    .num_cores = 2,
                    .caches = {},
                    .memory_bytes = 1 << 20};
  report.arithmetic = {{.isa = Isa::kAvx2,
                        .num_threads = 1,
                        .float_rate = {.median = 5e10, .best = 6e10, .spread = 0.25},
                        .integer_rate = {.median = 2e11, .best = 2e11, .spread = 0}}};
  report.reads = {{.from = "L2",
                   .bytes = 4096,
                   .num_threads = 1,
                   .rate = {.median = 1e11, .best = 1.5e11, .spread = 0.5}}};
  report.notes = {"a \"note\""};
  const nlohmann::json json = nlohmann::json::parse(LimitsAsJson(report));
  EXPECT_EQ(json["machine"]["cpus"], 4);
  EXPECT_EQ(json["arithmetic"][0]["isa"], "avx2");
  EXPECT_EQ(json["arithmetic"][0]["f32_macs_per_second"]["median"], 5e10);
  EXPECT_EQ(json["arithmetic"][0]["int8_macs_per_second"]["best"], 2e11);
  EXPECT_EQ(json["reads"][0]["bytes_per_second"]["spread"], 0.5);
  EXPECT_EQ(json["notes"][0], "a \"note\"");

  std::istringstream text(LimitsAsText(report, 0));
  for (std::string line; std::getline(text, line);) EXPECT_LE(line.size(), 100u) << line;
  EXPECT_NE(LimitsAsText(report, 0).find("avx2              1             50.0  60.0     25%"),
            std::string::npos)
      << LimitsAsText(report, 0);
}

TEST(LimitWorkTest, AmountsAreWhatThreadsDoTogether) {
  const auto pool = *ThreadPool::Make(2);
  const KernelContext context{.table = KernelsFor(Isa::kPortable), .pool = *pool};
  const AlignedBytes memory = *AlignedBytes::Allocate(size_t{3} << 20);
  const std::span<const std::byte> all(memory.data(), memory.size());
  // 1,000,100 and 700 bytes hold 1,953 and 1 whole units of 512.
  const LimitWork read = ReadLimitWork(context, {all.first(1'000'100), all.last(700)});
  EXPECT_EQ(read.amount, 1954.0 * 512);
  read.run();
  const LimitWork near = ReadNearLimitWork(context, all, size_t{1} << 20);
  EXPECT_EQ(near.amount, 2.0 * (4 << 20));
  near.run();
  const auto one = *ThreadPool::Make(1);
  const KernelContext alone{.table = KernelsFor(Isa::kPortable), .pool = *one};
  EXPECT_EQ(FloatLimitWork(context).amount, 2 * FloatLimitWork(alone).amount);
  EXPECT_EQ(IntegerLimitWork(context).amount, 2 * IntegerLimitWork(alone).amount);
}

}  // namespace
}  // namespace baton
