#include "cli/eval_needle_command.h"

#include <algorithm>
#include <utility>

#include "cli/bench_options.h"
#include "cli/eval_text.h"
#include "cli/model_argument.h"
#include "cli/model_options.h"
#include "cli/open_model.h"
#include "cli/progress.h"
#include "cli/report_output.h"
#include "evaluate/needle_text.h"
#include "kernels/sparse_policy_text.h"

namespace baton {
namespace {

// Enough filler for a prompt: no token of it is longer on average.
constexpr int64_t kFillerBytesPerToken = 8;

class EvalNeedleCommand final : public Command {
 public:
  CommandText Text() const override {
    return {
        .name = "eval needle",
        .summary = "whether a fact in a long text is found again",
        .usages = {"MODEL [--text FILE] [--lengths LIST] [--depths LIST] [--sparse POLICY]... "
                   "[OPTION]..."},
        .description =
            {"Puts a sentence, \"The secret code of Lisbon is 4812.\", into the beginning of "
             "the text at a depth, lets the prompt end in \"The secret code of Lisbon is\", "
             "and looks whether the model goes on with the code: greedily, and with which "
             "probability. Each length and depth has several trials with other names and "
             "codes, read densely and by each policy. Without a text, plain sentences in "
             "random order are the hay."},
        .examples = {"baton eval needle model.gguf --text book.txt --lengths 2000,8000 --depths "
                     "0,50,100 --sparse rule=share:0.15 --plot needle.svg"}};
  }

  void Declare(OptionSet& options) override {
    model_.Declare(options, /*also_dash=*/false);
    options.Group("Evaluation (lists have commas between the numbers)");
    text_.Declare(options);
    DeclareIntegers(options,
                    {.names = "--lengths",
                     .value = "LIST",
                     .help = "Tokens of the prompts (default: 1000,2000,4000,8000)"},
                    {.min = NeedleLimits::kMinLength, .max = ModelLimits::kMaxContext}, &lengths_);
    DeclareIntegers(options,
                    {.names = "--depths",
                     .value = "LIST",
                     .help = "Where the sentence stands, in percent (default: 0,25,50,75,100)"},
                    {.min = 0, .max = 100}, &depths_);
    options.Integer({.names = "--trials",
                     .value = "N",
                     .help = "Names and codes for each length and depth (default: 2)"},
                    {.min = 1, .max = NeedleLimits::kMaxTrials}, &trials_);
    options.Integer({.names = "--seed",
                     .value = "N",
                     .help = "Of names, codes and plain sentences (default: 1)"},
                    {.min = 0, .max = (int64_t{1} << 53)}, &seed_);
    DeclarePolicies(options, &policies_);
    output_.Declare(options, "Write what was found by depth and length as SVG besides");
    compute_.DeclareWithoutPrefill(options);
  }

  Result<> Check() override {
    if (lengths_.empty()) lengths_ = {1000, 2000, 4000, 8000};
    if (depths_.empty()) depths_ = {0, 25, 50, 75, 100};
    if (policies_.empty()) policies_.push_back(DefaultSparsePolicy());
    return model_.Check();
  }

  Result<> Run(Console& console) override {
    if (Result<> opened = output_.Open(); !opened) return opened;
    const int64_t longest = *std::max_element(lengths_.begin(), lengths_.end());
    const auto seed = static_cast<uint64_t>(seed_.value_or(1));
    const Result<std::string> text =
        text_.Check() ? text_.Read(console) : FillerText(longest * kFillerBytesPerToken, seed);
    if (!text) return Forward(text);
    Result<LoadOptions> load = compute_.ToLoadOptions(model_.path(), console.clock);
    if (!load) return Forward(load);
    if (!load->context_tokens.has_value()) load->context_tokens = longest;
    Result<LoadedModel> model = OpenModel(*load, console);
    if (!model) return Forward(model);
    return compute_.Finish(Measure(*text, seed, *model, console), console);
  }

 private:
  Result<> Measure(const std::string& text, uint64_t seed, LoadedModel& model, Console& console) {
    Progress progress(
        console.status, console.clock,
        {.what = "Searching", .unit = ProgressUnit::kTokens, .columns = console.columns});
    const InterruptScope scope(console.interrupt);
    Result<NeedleResult> result = MeasureNeedles(
        model,
        {.text = text,
         .lengths = lengths_,
         .depths = depths_,
         .policies = policies_,
         .num_trials = static_cast<int>(trials_.value_or(2)),
         .seed = seed},
        [&](int64_t done, int64_t total) { progress.Update(done, total); },
        console.interrupt.requested());
    progress.Clear();
    if (!result) return Forward(result);
    const NeedleReport report = {.model = model_.path(),
                                 .text = text_.Check() ? text_.Name() : "plain sentences",
                                 .lengths = lengths_,
                                 .depths = depths_,
                                 .policies = policies_,
                                 .result = *std::move(result)};
    return output_.Write({.text = [&](size_t columns) { return NeedleAsText(report, columns); },
                          .json = [&] { return NeedleAsJson(report); },
                          .svg = [&] { return NeedleAsSvg(report); }},
                         console);
  }

  ModelArgument model_;
  ComputeOptions compute_;
  EvalText text_;
  std::vector<int64_t> lengths_;
  std::vector<int64_t> depths_;
  std::vector<SparsePolicy> policies_;
  std::optional<int64_t> trials_;
  std::optional<int64_t> seed_;
  ReportOutput output_;
};

}  // namespace

std::unique_ptr<Command> MakeEvalNeedleCommand() {
  return std::make_unique<EvalNeedleCommand>();
}

}  // namespace baton
