#include "cli/eval_density_command.h"

#include <fmt/format.h>

#include "base/whole_number.h"
#include "cli/eval_text.h"
#include "cli/model_argument.h"
#include "cli/model_options.h"
#include "cli/printable.h"
#include "cli/progress.h"
#include "cli/report_output.h"
#include "evaluate/density_text.h"
#include "kernels/sparse_policy_text.h"

namespace baton {
namespace {

constexpr int64_t kMaxIndex = 65535;
constexpr size_t kMaxQuotedBytes = 60;

bool IsAllKept(const std::vector<std::vector<BlockCounts>>& layers) {
  for (const std::vector<BlockCounts>& heads : layers) {
    for (const BlockCounts& head : heads) {
      if (head.kept < head.candidates) return false;
    }
  }
  return true;
}

class EvalDensityCommand final : public Command {
 public:
  CommandText Text() const override {
    return {.name = "eval density",
            .summary = "which blocks a sparse prefill reads",
            .usages = {"MODEL --text FILE [--tokens N] [--sparse POLICY] [--map LAYER:HEAD] "
                       "[OPTION]..."},
            .description =
                {"Reads a prompt by a policy and prints, for each layer and KV head, the kept "
                 "blocks of all tiles as a share of the blocks in sight of them. With --map, JSON "
                 "and picture also have every block that each tile of one layer and KV head kept."},
            .examples = {"baton eval density model.gguf --text book.txt --tokens 8000 --sparse "
                         "rule=share:0.15 --map 12:1 --plot density.svg"}};
  }

  void Declare(OptionSet& options) override {
    model_.Declare(options);
    options.Group("Evaluation");
    prompt_.Declare(options);
    DeclarePolicy(options, &policy_);
    options.Parsed({.names = "--map",
                    .value = "LAYER:HEAD",
                    .help = "The layer and KV head whose blocks to map"},
                   [this](const std::string& given) { return TakeMap(given); });
    output_.Declare(options, "Write densities, and the map, as SVG besides");
    compute_.DeclareWithoutPrefill(options,
                                   "the prompt is read sparsely, by the policy of --sparse POLICY");
  }

  Result<> Check() override {
    if (Result<> model = model_.Check(); !model) return model;
    return prompt_.Check();
  }

  Result<> Run(Console& console) override {
    if (Result<> opened = output_.Open(); !opened) return opened;
    Result<EvalPrompt> prompt = prompt_.Open(model_.path(), compute_, console);
    if (!prompt) return Forward(prompt);
    return compute_.Finish(Measure(*prompt, console), console);
  }

 private:
  Result<> TakeMap(const std::string& given) {
    const size_t mark = given.find(':');
    const IntegerRange range = {.min = 0, .max = kMaxIndex};
    if (mark != std::string::npos) {
      const std::optional<int64_t> layer = WholeIn(std::string_view(given).substr(0, mark), range);
      const std::optional<int64_t> head = WholeIn(std::string_view(given).substr(mark + 1), range);
      if (layer.has_value() && head.has_value()) {
        map_ = {.layer = static_cast<int>(*layer), .kv_head = static_cast<int>(*head)};
        return {};
      }
    }
    return Fail(ErrorCode::kInvalid,
                fmt::format("takes LAYER:HEAD, two whole numbers from {} to {}, not '{}'",
                            range.min, range.max, Printable(given, kMaxQuotedBytes)));
  }

  Result<> Measure(EvalPrompt& prompt, Console& console) {
    DensityReport report = {.model = model_.path(),
                            .text = prompt_.Name(),
                            .num_tokens = std::ssize(prompt.tokens),
                            .policy = policy_.value_or(DefaultSparsePolicy()),
                            .result = {}};
    Progress progress(console.status, console.clock,
                      {.what = "Reading",
                       .unit = ProgressUnit::kTokens,
                       .columns = console.columns,
                       .lines = &console.err});
    const InterruptScope scope(console.interrupt);
    Result<DensityResult> result = MeasureDensity(
        prompt.model, prompt.tokens, {.policy = report.policy, .map = map_},
        [&](int64_t done, int64_t total) { progress.Update(done, total); },
        console.interrupt.requested());
    progress.Clear();
    if (!result) return Forward(result);
    report.result = *std::move(result);
    if (IsAllKept(report.result.counts)) {
      NoteNothingLeftOut({{.policy = report.policy, .lengths = {report.num_tokens}}}, prompt.model,
                         console);
    }
    return output_.Write({.text = [&](size_t columns) { return DensityAsText(report, columns); },
                          .json = [&] { return DensityAsJson(report); },
                          .svg = [&] { return DensityAsSvg(report); }},
                         console);
  }

  ModelArgument model_;
  ComputeOptions compute_;
  EvalPromptOptions prompt_;
  std::optional<SparsePolicy> policy_;
  std::optional<DenseHead> map_;
  ReportOutput output_;
};

}  // namespace

std::unique_ptr<Command> MakeEvalDensityCommand() {
  return std::make_unique<EvalDensityCommand>();
}

}  // namespace baton
