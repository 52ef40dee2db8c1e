#include "cli/eval_needle_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/number_text.h"
#include "cli/bench_options.h"
#include "cli/eval_text.h"
#include "cli/model_argument.h"
#include "cli/model_options.h"
#include "cli/note.h"
#include "cli/progress.h"
#include "cli/report_output.h"
#include "evaluate/needle_text.h"
#include "kernels/sparse_policy_text.h"

namespace baton {
namespace {

// Enough filler for a prompt: no token of it is longer on average.
constexpr int64_t kFillerBytesPerToken = 8;
constexpr std::array<int64_t, 4> kUsualLengths = {1000, 2000, 4000, 8000};

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
    model_.Declare(options);
    options.Group("Evaluation (lists have commas between the numbers)");
    text_.Declare(options);
    DeclareIntegers(options,
                    {.names = "--lengths",
                     .value = "LIST",
                     .help = "Tokens of the prompts (default: 1000,2000,4000,8000, as far as "
                             "text and context have them)"},
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
    compute_.DeclareWithoutPrefill(options, kPoliciesInstead);
  }

  Result<> Check() override {
    if (depths_.empty()) depths_ = {0, 25, 50, 75, 100};
    if (policies_.empty()) policies_.push_back(DefaultSparsePolicy());
    return model_.Check();
  }

  Result<> Run(Console& console) override {
    if (Result<> opened = output_.Open(); !opened) return opened;
    TokensWanted wanted{.option = "--lengths", .usual = kUsualLengths.back()};
    if (!lengths_.empty()) wanted.given = *std::ranges::max_element(lengths_);
    const auto seed = static_cast<uint64_t>(seed_.value_or(1));
    const Result<std::string> text =
        text_.Check()
            ? text_.Read(console)
            : FillerText(wanted.given.value_or(*wanted.usual) * kFillerBytesPerToken, seed);
    if (!text) return Forward(text);
    const Result<LoadOptions> load = compute_.ToLoadOptions(model_.path(), console.clock);
    if (!load) return Forward(load);
    Result<LoadedModel> model = OpenModelFor(
        wanted, *load, {{text_.Check() ? text_.Name() : "the plain text", *text}}, console);
    if (!model) return Forward(model);
    if (Result<> chosen = ChooseLengths(*text, *model, console); !chosen) return chosen;
    return compute_.Finish(Measure(*text, seed, *model, console), console);
  }

 private:
  // Without --lengths: the usual ones, as far as text and context have so many tokens.
  Result<> ChooseLengths(const std::string& text, const LoadedModel& model, Console& console) {
    if (!lengths_.empty()) return {};
    const Result<std::vector<TokenId>> tokens =
        model.tokenizer->Encode(text, {.add_special = false, .parse_special = false});
    if (!tokens) return Forward(tokens);
    const bool is_context = model.context_tokens < std::ssize(*tokens);
    const int64_t most = is_context ? model.context_tokens : std::ssize(*tokens);
    for (const int64_t length : kUsualLengths) {
      if (length <= most) lengths_.push_back(length);
    }
    const std::string whole =
        fmt::format("the {} has {}", is_context ? "context" : "text", CountOf(most, "token"));
    if (lengths_.empty()) {
      const std::string more = is_context ? "a larger --ctx" : "a longer text";
      return Fail(ErrorCode::kInvalid,
                  most < NeedleLimits::kMinLength
                      ? fmt::format("{}, fewer than the {} that a prompt needs; give {}", whole,
                                    CountText(NeedleLimits::kMinLength), more)
                      : fmt::format("{}, fewer than the usual {} of a prompt; give smaller "
                                    "--lengths or {}",
                                    whole, CountText(kUsualLengths.front()), more));
    }
    if (lengths_.size() < kUsualLengths.size()) {
      Note(fmt::format("{}: prompts have up to {} instead of the usual {}", whole,
                       CountText(lengths_.back()), CountText(kUsualLengths.back())),
           console);
    }
    return {};
  }

  Result<> Measure(const std::string& text, uint64_t seed, LoadedModel& model, Console& console) {
    Progress progress(console.status, console.clock,
                      {.what = "Searching",
                       .unit = ProgressUnit::kTokens,
                       .columns = console.columns,
                       .lines = &console.err});
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
    NoteWhatIsTooShort(model, console);
    return output_.Write({.text = [&](size_t columns) { return NeedleAsText(report, columns); },
                          .json = [&] { return NeedleAsJson(report); },
                          .svg = [&] { return NeedleAsSvg(report); }},
                         console);
  }

  void NoteWhatIsTooShort(const LoadedModel& model, Console& console) const {
    std::vector<NothingLeftOut> whole;
    for (const SparsePolicy& policy : policies_) {
      const std::optional<int64_t> first = FirstSparseLength(policy, model.model->spec());
      NothingLeftOut& one = whole.emplace_back(NothingLeftOut{.policy = policy, .lengths = {}});
      for (const int64_t length : lengths_) {
        if (!first || length < *first) one.lengths.push_back(length);
      }
      std::ranges::sort(one.lengths);
    }
    NoteNothingLeftOut(whole, model, console);
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
