#include "cli/eval_perplexity_command.h"

#include <fmt/format.h>

#include "base/number_text.h"
#include "base/wrapped_text.h"
#include "cli/eval_text.h"
#include "cli/model_argument.h"
#include "cli/model_options.h"
#include "cli/open_model.h"
#include "cli/progress.h"
#include "engine/prompt_policy.h"
#include "evaluate/perplexity.h"
#include "kernels/sparse_policy_text.h"

namespace baton {
namespace {

constexpr size_t kValueColumn = 13;

// How the windows were read.
std::string PrefillText(const std::optional<SparsePolicy>& policy) {
  return policy ? PolicyText(*policy) : "dense";
}

std::string FiguresAsJson(const PerplexityFigures& figures, int64_t window,
                          const std::optional<SparsePolicy>& policy) {
  std::string windows;
  for (const double nll : figures.window_nll) {
    windows += (windows.empty() ? "" : ", ") + DoubleJson(nll);
  }
  return fmt::format(
      "{{\"policy\": \"{}\", \"perplexity\": {}, \"nll_sum\": {}, \"count\": {}, \"window\": {}, "
      "\"windows\": {}, "
      "\"window_nll\": [{}], \"second_half\": {{\"perplexity\": {}, \"nll_sum\": {}, \"count\": "
      "{}}}}}\n",
      PrefillText(policy), DoubleJson(figures.perplexity()), DoubleJson(figures.nll_sum),
      figures.count, window, figures.window_nll.size(), windows,
      DoubleJson(figures.second_half_perplexity()), DoubleJson(figures.second_half_nll_sum),
      figures.second_half_count);
}

std::string FiguresAsText(const PerplexityFigures& figures, int64_t window,
                          const std::optional<SparsePolicy>& policy, size_t columns) {
  const auto line = [columns](std::string_view label, const std::string& value) {
    return LabelledLine(label, value, {.columns = columns, .indent = kValueColumn});
  };
  return line("perplexity", fmt::format("{:.6f}  ({} in {} of {})", figures.perplexity(),
                                        CountOf(figures.count, "target"),
                                        CountOf(std::ssize(figures.window_nll), "window"),
                                        CountOf(window, "token"))) +
         line("second half", fmt::format("{:.6f}  ({})", figures.second_half_perplexity(),
                                         CountOf(figures.second_half_count, "target"))) +
         line("policy", PrefillText(policy));
}

class EvalPerplexityCommand final : public Command {
 public:
  CommandText Text() const override {
    return {.name = "eval perplexity",
            .summary = "perplexity of a text",
            .usages = {"MODEL --text FILE [--window N] [--windows N] [--json]"},
            .description =
                {"Encodes the whole text at once, special tokens and BOS left out, and cuts it "
                 "into windows that do not overlap. Each window starts with an empty cache, and "
                 "with BOS in the place of one token if the vocabulary adds it. Every token of a "
                 "window but the first counts; a last window that is not whole does not. Prints "
                 "exp(sum of -ln p / count), also for the second halves of the windows alone."},
            .examples = {"baton eval perplexity model.gguf --text book.txt --window 2048"}};
  }

  void Declare(OptionSet& options) override {
    model_.Declare(options);
    options.Group("Evaluation");
    options.File({.names = "--text",
                  .value = "FILE",
                  .help = "The text; - is standard input",
                  .dash_is_input = true},
                 &text_path_);
    options.Integer(
        {.names = "--window", .value = "N", .help = "Tokens of a window (default: 2048)"},
        {.min = 2, .max = ModelLimits::kMaxContext}, &window_);
    options.Integer({.names = "--windows",
                     .value = "N",
                     .help = "Measure the first N windows only (default: all)"},
                    {.min = 1, .max = ModelLimits::kMaxContext}, &max_windows_);
    options.Flag({.names = "--json", .value = "", .help = "Print one JSON object"}, &json_);
    compute_.Declare(options);
  }

  Result<> Check() override {
    const Result<> model = model_.Check();
    if (!model) return model;
    if (!text_path_.has_value()) return Fail(ErrorCode::kInvalid, "name the text: --text FILE");
    return compute_.Check();
  }

  Result<> Run(Console& console) override {
    Result<std::string> text = ReadTextOrInput(*text_path_, console.in);
    if (!text) return Forward(text);
    const std::string name = *text_path_ == "-" ? "standard input" : *text_path_;
    text = RequireUtf8(std::move(*text), name);
    if (!text) return Forward(text);
    const Result<LoadOptions> load = compute_.ToLoadOptions(model_.path(), console.clock);
    if (!load) return Forward(load);
    Result<LoadedModel> model = OpenModel(*load, console);
    if (!model) return Forward(model);
    const Tokenizer& tokenizer = *model->tokenizer;
    const Result<std::vector<TokenId>> tokens =
        tokenizer.Encode(*text, {.add_special = false, .parse_special = false});
    if (!tokens) return Forward(tokens);
    const int64_t window = window_.value_or(kDefaultWindow);
    const bool has_bos = tokenizer.adds_bos() && tokenizer.bos() != kNoToken;
    std::vector<std::vector<TokenId>> windows = CutWindows(
        *tokens, has_bos ? std::optional<TokenId>(tokenizer.bos()) : std::nullopt, window);
    if (windows.empty()) {
      // The smallest window has two tokens.
      return Fail(
          ErrorCode::kInvalid,
          fmt::format("{}: has {}, too few for one window of {}; give a longer text{}", name,
                      CountOf(std::ssize(*tokens), "token"), CountText(window),
                      tokens->size() + (has_bos ? 1 : 0) < 2 ? "" : ", or a smaller --window"));
    }
    if (max_windows_.has_value() && *max_windows_ < static_cast<int64_t>(windows.size())) {
      windows.resize(static_cast<size_t>(*max_windows_));
    }
    return compute_.Finish(Measure(windows, *model, console), console);
  }

 private:
  static constexpr int64_t kDefaultWindow = 2048;

  Result<> Measure(const std::vector<std::vector<TokenId>>& windows, LoadedModel& model,
                   Console& console) {
    Result<Generator> generator = Generator::Make(model);
    if (!generator) return Forward(generator);
    Progress progress(console.status, console.clock,
                      {.what = "Evaluating",
                       .unit = ProgressUnit::kTokens,
                       .columns = console.columns,
                       .lines = &console.err});
    const InterruptScope scope(console.interrupt);
    const Result<PerplexityFigures> figures = MeasurePerplexity(
        windows, model, *generator,
        [&](int64_t done, int64_t total) { progress.Update(done, total); },
        console.interrupt.requested());
    progress.Clear();
    if (!figures) return Forward(figures);
    const int64_t window = static_cast<int64_t>(windows.front().size());
    const Result<std::optional<SparsePolicy>> policy = PolicyOfPrompt({}, window, model);
    if (!policy) return Forward(policy);
    if (*policy && window < FirstSparseLength(**policy, model.model->spec()).value_or(window + 1)) {
      NoteNothingLeftOut({{.policy = **policy, .lengths = {window}}}, model, console);
    }
    return console.out.Write(
        json_ ? FiguresAsJson(*figures, window, *policy)
              : FiguresAsText(*figures, window, *policy, console.answer_columns));
  }

  ModelArgument model_;
  ComputeOptions compute_;
  std::optional<std::string> text_path_;
  std::optional<int64_t> window_;
  std::optional<int64_t> max_windows_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeEvalPerplexityCommand() {
  return std::make_unique<EvalPerplexityCommand>();
}

}  // namespace baton
