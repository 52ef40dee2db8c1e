#include "cli/simulate_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "base/number_text.h"
#include "cli/report_output.h"
#include "cli/simulate_engine_options.h"
#include "cli/simulate_load_options.h"
#include "cli/simulate_report.h"
#include "simulate/simulation.h"
#include "simulate/workload.h"

namespace baton {
namespace {

constexpr double kStatusAfterSeconds = 1;

class SimulateCommand final : public Command {
 public:
  CommandText Text() const override {
    return {
        .name = "simulate",
        .summary = "what many requests at once would see, without a model",
        .usages = {"[OPTION]...", "--workload FILE [OPTION]..."},
        .description =
            {"Runs the engine's scheduler on a virtual clock: requests arrive, wait, are read and "
             "answered as they would be, but a step takes what a formula says instead of being "
             "computed. A day of traffic takes seconds. The rules are in docs/scheduling.md.",
             "DIST is a number of tokens (512), a range (100..900), lognormal:MEDIAN,SIGMA or a "
             "histogram of lengths and weights (64=5,512=3,4096=2). Arrivals are Poisson. A "
             "workload from a file has a JSON object in each line: arrival (seconds), "
             "prompt_tokens, output_tokens, and if wanted prefix, prefix_tokens, chat, priority, "
             "follows, cancel_after.",
             "A step takes A + B per prompt token + C per prompt token and position it attends to "
             "+ D per decode row + E per decode row and position. The usual times are those of "
             "SmolLM2-135M on two cores."},
        .examples = {"baton simulate --rate 2 --duration 3600 --prompt-tokens lognormal:400,0.8",
                     "baton simulate --rate 0.5 --burst 8 --shared-prefix 1000 --plot load.svg",
                     "baton simulate --workload day.jsonl --kv-tokens 65536 --json"}};
  }

  void Declare(OptionSet& options) override {
    load_.Declare(options);
    engine_.Declare(options);
    options.Group("Report");
    output_.Declare(options,
                    "Write a plot as SVG besides: time to first token and gaps between "
                    "tokens over the time");
  }

  Result<> Check() override {
    if (Result<> load = load_.Check(); !load) return load;
    return engine_.Check();
  }

  Result<> Run(Console& console) override {
    if (Result<> opened = output_.Open(); !opened) return opened;
    Result<SimulationOptions> options = engine_.Make(console);
    if (!options) return Forward(options);
    options->seed = load_.seed();
    const Result<Workload> workload = load_.Load(console);
    if (!workload) return Forward(workload);
    const int64_t begin_ns = console.clock.NowNs();
    options->stop = [&](double seconds) {
      const double real = static_cast<double>(console.clock.NowNs() - begin_ns) * 1e-9;
      if (real >= kStatusAfterSeconds) {
        const std::string said = "Simulating: " + DurationText(seconds);
        console.status.Draw(said.substr(0, static_cast<size_t>(std::max(console.columns - 1, 0))));
      }
      return false;
    };
    const Result<SimulationResult> result = Simulate(*workload, *options);
    console.status.Clear();
    if (!result) return Forward(result);
    return output_.Write(
        {.text = [&](size_t columns) { return SimulationAsText(*result, columns); },
         .json = [&] { return SimulationAsJson(*result, *options); },
         .svg = [&] { return SimulationAsSvg(*result, Subtitle(*result)); }},
        console);
  }

 private:
  std::string Subtitle(const SimulationResult& result) const {
    return fmt::format("{} in {}, {} running at most, {}, {}", CountOf(result.arrived, "request"),
                       DurationText(result.seconds), engine_.max_running(),
                       CountOf(result.num_blocks, "block"),
                       CountOf(static_cast<int64_t>(result.counts.preemptions), "preemption"));
  }

  SimulateLoadOptions load_;
  SimulateEngineOptions engine_;
  ReportOutput output_;
};

}  // namespace

std::unique_ptr<Command> MakeSimulateCommand() {
  return std::make_unique<SimulateCommand>();
}

}  // namespace baton
