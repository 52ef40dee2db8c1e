#include "cli/bench_limits_command.h"

#include <optional>

#include "bench/limits.h"
#include "cli/bench_options.h"

namespace baton {
namespace {

class BenchLimitsCommand final : public Command {
 public:
  CommandText Text() const override {
    return {.name = "bench limits",
            .summary = "what this machine can do at most, measured",
            .usages = {"[--threads N] [--json]"},
            .description = {"Measures, in a few seconds, multiply-adds of f32 and of 8-bit "
                            "integers per instruction set, and how fast memory can be read from "
                            "each cache and from behind them with 1, 2, 4 ... threads. The other "
                            "benchmarks measure the same limits again beside each of their rows; "
                            "this table is for people.",
                            "GMAC/s are 10^9 multiply-adds a second. One thread is timed by its "
                            "own CPU time, several by the clock on the wall. The spread is the "
                            "distance between the quartiles, as a share of the median."},
            .examples = {"baton bench limits", "baton bench limits --threads 4 --json"}};
  }

  void Declare(OptionSet& options) override {
    options.Group("Measuring");
    DeclareBenchThreads(options,
                        "Most threads to read with (default: the physical cores this "
                        "process may use)",
                        &threads_);
    DeclareQuick(options, &is_quick_);
    options.Group("Report");
    options.Flag({.names = "--json", .value = "", .help = "Print one JSON object"}, &json_);
  }

  Result<> Check() override { return {}; }

  Result<> Run(Console& console) override {
    const LimitsOptions options = {.max_threads = BenchThreads(threads_),
                                   .max_bytes = MemoryForBench(),
                                   .is_quick = is_quick_};
    const Result<LimitsReport> report =
        MeasureLimits(options, [&console](const std::string& what) { ShowStatus(console, what); });
    console.status.Clear();
    if (!report) return Forward(report);
    return EndOfQuick(is_quick_,
                      console.out.Write(json_ ? LimitsAsJson(*report)
                                              : LimitsAsText(*report, console.answer_columns)),
                      console);
  }

 private:
  std::optional<int64_t> threads_;
  bool is_quick_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeBenchLimitsCommand() {
  return std::make_unique<BenchLimitsCommand>();
}

}  // namespace baton
