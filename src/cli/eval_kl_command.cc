#include "cli/eval_kl_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/eval_text.h"
#include "cli/model_argument.h"
#include "cli/model_options.h"
#include "cli/progress.h"
#include "cli/report_output.h"
#include "evaluate/divergence_text.h"
#include "evaluate/policy_label.h"
#include "kernels/sparse_policy_text.h"

namespace baton {
namespace {

constexpr int64_t kDefaultPositions = 512;
constexpr int64_t kMaxRounds = 1000;

class EvalKlCommand final : public Command {
 public:
  CommandText Text() const override {
    return {.name = "eval kl",
            .summary = "what sparse prefill loses and saves against dense",
            .usages = {"MODEL --text FILE [--tokens N] [--sparse POLICY]... [OPTION]..."},
            .description =
                {"Reads the same prompt densely and by each policy and compares the distributions "
                 "of the next token over the whole vocabulary: KL(dense || sparse) in nats, its "
                 "mean, 95th and 99th percentile and maximum, and how often both have the same "
                 "likeliest token; at the last positions of the prompt, and at as many spread "
                 "over all of it.",
                 "Times are taken after that in rounds of one dense prefill and one by each "
                 "policy, up to the logits of the last token; what is compared is the median of "
                 "the rounds' ratios. The dense logits stay in memory: 4 bytes for each position "
                 "and entry of the vocabulary."},
            .examples = {"baton eval kl model.gguf --text book.txt --tokens 8000 --sparse "
                         "rule=share:0.15 --sparse published --plot kl.svg"}};
  }

  void Declare(OptionSet& options) override {
    model_.Declare(options);
    options.Group("Evaluation");
    prompt_.Declare(options);
    DeclarePolicies(options, &policies_);
    options.Flag({.names = "--baselines",
                  .value = "",
                  .help = "Also compare yardsticks of the first policy: the published one, and as "
                          "many blocks by means, by chance, by true weight, or none"},
                 &has_baselines_);
    options.Integer({.names = "--positions",
                     .value = "N",
                     .help = "Positions at the end, and spread over the prompt (default: 512)"},
                    {.min = 1, .max = ModelLimits::kMaxContext}, &positions_);
    options.Integer(
        {.names = "--repeat", .value = "R", .help = "Rounds of timing; 0 for none (default: 3)"},
        {.min = 0, .max = kMaxRounds}, &repeat_);
    output_.Declare(options, "Write loss against time as SVG besides");
    compute_.DeclareWithoutPrefill(options, kPoliciesInstead);
  }

  Result<> Check() override {
    if (Result<> model = model_.Check(); !model) return model;
    if (Result<> text = prompt_.Check(); !text) return text;
    if (output_.has_plot() && repeat_ == 0) {
      return Fail(ErrorCode::kInvalid, "--plot shows times, and --repeat 0 takes none");
    }
    if (policies_.empty()) policies_.push_back(DefaultSparsePolicy());
    if (!has_baselines_) return {};
    const Result<std::vector<SparsePolicy>> baselines = BaselinesOf(policies_.front());
    if (!baselines) {
      return Fail(baselines.error().code, "--baselines: " + baselines.error().message);
    }
    policies_.insert(policies_.end(), baselines->begin(), baselines->end());
    return {};
  }

  Result<> Run(Console& console) override {
    if (Result<> opened = output_.Open(); !opened) return opened;
    Result<EvalPrompt> prompt = prompt_.Open(model_.path(), compute_, console);
    if (!prompt) return Forward(prompt);
    return compute_.Finish(Compare(*prompt, console), console);
  }

 private:
  Result<> Compare(EvalPrompt& prompt, Console& console) {
    LoadedModel& model = prompt.model;
    const int64_t num_tokens = std::ssize(prompt.tokens);
    DivergenceReport report = {
        .model = model_.path(),
        .text = prompt_.Name(),
        .num_tokens = num_tokens,
        .isa = std::string(IsaName(model.options.isa)),
        .precision = model.options.precision == Precision::kExact ? "exact" : "fast",
        .kv_type = KvTypeName(model.options.kv_type),
        .num_threads = model.pool->num_threads(),
        .sets = LastAndSpread(num_tokens, positions_.value_or(kDefaultPositions)),
        .result = {}};
    Progress progress(console.status, console.clock,
                      {.what = "Comparing",
                       .unit = ProgressUnit::kTokens,
                       .columns = console.columns,
                       .lines = &console.err});
    const InterruptScope scope(console.interrupt);
    Result<DivergenceResult> result = MeasureDivergence(
        model, prompt.tokens,
        {.sets = report.sets,
         .policies = policies_,
         .num_rounds = static_cast<int>(repeat_.value_or(3))},
        [&](int64_t done, int64_t total) { progress.Update(done, total); },
        console.interrupt.requested());
    progress.Clear();
    if (!result) return Forward(result);
    report.result = *std::move(result);
    std::vector<NothingLeftOut> whole;
    for (const PolicyDivergence& one : report.result.policies) {
      const bool left_something = std::ranges::any_of(
          one.report.layers,
          [](const BlockCounts& layer) { return layer.kept < layer.candidates; });
      if (!left_something) whole.push_back({.policy = one.policy, .lengths = {num_tokens}});
    }
    NoteNothingLeftOut(whole, model, console);
    return output_.Write({.text = [&](size_t columns) { return DivergenceAsText(report, columns); },
                          .json = [&] { return DivergenceAsJson(report); },
                          .svg = [&] { return DivergenceAsSvg(report); }},
                         console);
  }

  ModelArgument model_;
  ComputeOptions compute_;
  EvalPromptOptions prompt_;
  std::vector<SparsePolicy> policies_;
  std::optional<int64_t> positions_;
  std::optional<int64_t> repeat_;
  bool has_baselines_ = false;
  ReportOutput output_;
};

}  // namespace

std::unique_ptr<Command> MakeEvalKlCommand() {
  return std::make_unique<EvalKlCommand>();
}

}  // namespace baton
