#include "cli/tune_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/number_text.h"
#include "base/wrapped_text.h"
#include "cli/eval_text.h"
#include "cli/input.h"
#include "cli/model_argument.h"
#include "cli/model_options.h"
#include "cli/progress.h"
#include "engine/tune_file.h"
#include "evaluate/tune.h"
#include "format/packed_file.h"
#include "model/model_spec.h"
#include "text/json_text.h"

namespace baton {
namespace {

constexpr int64_t kDefaultTokens = 4096;
constexpr double kMaxKl = 100;
constexpr size_t kValueColumn = 12;

std::string HeadsText(const TuneResult& result) {
  std::vector<std::string> heads;
  for (const DenseHead& head : result.chosen.policy.dense_heads) {
    heads.push_back(fmt::format("{}:{}", head.layer, head.kv_head));
  }
  return heads.empty() ? "none" : fmt::format("{}", fmt::join(heads, ", "));
}

std::string BreakEvenText(const TuneResult& result) {
  if (!result.break_even_tokens) {
    return fmt::format(
        "none up to {} tokens, the longest that was timed: --prefill auto stays dense",
        CountText(result.timings.back().num_tokens));
  }
  const bool is_first = *result.break_even_tokens == result.timings.front().num_tokens;
  return fmt::format("{} tokens{}; longer prompts are read faster by the policy",
                     CountText(*result.break_even_tokens),
                     is_first ? ", the shortest that was timed" : "");
}

std::string ResultText(const TuneResult& result, const TuneOptions& options, size_t columns) {
  const auto line = [columns](std::string_view label, const std::string& value) {
    return LabelledLine(label, value, {.columns = columns, .indent = kValueColumn});
  };
  const std::vector<int>& layers = result.chosen.policy.dense_layers;
  std::string text =
      line("policy", PolicyText(result.chosen.policy)) +
      line("KL", fmt::format("{:.4f} of at most {} nats", result.chosen.kl, options.max_kl)) +
      line("density",
           fmt::format("{:.1f}% of the past's blocks read", 100 * result.chosen.density)) +
      line("induction", HeadsText(result) + " (layer:KV head, dense)") +
      line("layers",
           layers.empty() ? "none (dense)" : fmt::format("{} (dense)", fmt::join(layers, ", ")));
  for (const TuneTiming& timing : result.timings) {
    text +=
        line("time", fmt::format("{} tokens: {:.2f} s dense, {:.2f} times that by the policy",
                                 CountText(timing.num_tokens), timing.dense_seconds, timing.ratio));
  }
  return text + line("break-even", BreakEvenText(result));
}

class TuneCommand final : public Command {
 public:
  CommandText Text() const override {
    return {.name = "tune",
            .summary = "find the sparse prefill that suits a model",
            .usages = {"MODEL --text FILE... [--kl X] [--tokens N] [--json] [--tune-file FILE]"},
            .description =
                {"Finds out which attention heads and layers of the model must stay dense, whether "
                 "a share or a threshold of blocks loses less, how many blocks keep its answers "
                 "within a stated divergence on the given texts, and from which length on a sparse "
                 "prefill is faster. Saves this beside the model as MODEL.tune.json, with the "
                 "numbers that it was chosen by. From then on --prefill auto uses it, and "
                 "--prefill sparse without --sparse.",
                 "Give texts of the kind that the model will read: prose, code, documentation. It "
                 "takes minutes: each text is read some thirty times, so a large model takes "
                 "long, and --tokens makes it shorter. Times count for this machine and --threads; "
                 "what is lost does not depend on them. Nothing is written before the end."},
            .examples = {"baton tune model.gguf --text book.txt --text manual.txt",
                         "baton run model.gguf -f book.txt -p 'Who wrote it?' --prefill auto"}};
  }

  void Declare(OptionSet& options) override {
    model_.Declare(options);
    options.Group("Tuning");
    options.Files({.names = "--text",
                   .value = "FILE",
                   .help = "A text in UTF-8; may be repeated; - is standard input",
                   .dash_is_input = true},
                  &text_paths_);
    options.Real({.names = "--kl",
                  .value = "X",
                  .help = "Divergence that is allowed: KL(dense || sparse) in nats, mean over "
                          "positions and texts (default: 0.02)"},
                 {.min = 1e-6, .max = kMaxKl}, &max_kl_);
    options.Integer({.names = "--tokens",
                     .value = "N",
                     .help = "Tokens of each text that are read, from its start, 1024 at least "
                             "(default: 4096, as far as text and context have them)"},
                    {.min = kLeastTuneTokens, .max = ModelLimits::kMaxContext}, &tokens_);
    options.Flag({.names = "--json", .value = "", .help = "Print one JSON object"}, &json_);
    options.OutputFile({.names = "-o,--output,--tune-file",
                        .value = "FILE",
                        .help = "Where to save it (default: MODEL.tune.json; of another place "
                                "other commands must be told by --tune-file, too)"},
                       &output_);
    const std::string instead =
        "tune reads prompts both ways and finds the policy itself; --kl says what it may lose";
    compute_.DeclareWithoutPrefill(options, instead);
    options.Elsewhere("--sparse", instead);
  }

  Result<> Check() override {
    if (Result<> model = model_.Check(); !model) return model;
    if (text_paths_.empty()) return Fail(ErrorCode::kInvalid, "name a text: --text FILE");
    return {};
  }

  Result<> Run(Console& console) override {
    const Result<LoadOptions> load = compute_.ToLoadOptions(model_.path(), console.clock);
    if (!load) return Forward(load);
    const Result<GgufFile> file = GgufFile::Open(model_.path());
    if (!file) return Forward(file);
    const std::string path = output_.value_or(TunePathOf(*file));
    // Known before minutes have passed.
    if (Result<> writable = CheckTunePath(path); !writable) return WithWayOut(writable);
    std::vector<NamedText> texts;
    for (const std::string& text_path : text_paths_) {
      const std::string name = text_path == "-" ? "standard input" : text_path;
      Result<std::string> text = ReadTextOrInput(text_path, console.in);
      if (text) text = RequireUtf8(std::move(*text), name);
      if (!text) return Forward(text);
      if (Result<> other = CheckOther(name, *text, texts); !other) return other;
      texts.push_back({.name = name, .text = *std::move(text)});
    }
    const TokensWanted wanted{.given = tokens_, .usual = kDefaultTokens};
    Result<LoadedModel> model = OpenModelFor(wanted, *load, texts, console);
    if (!model) return Forward(model);
    if (model->context_tokens < kLeastTuneTokens) {
      return Fail(
          ErrorCode::kInvalid,
          fmt::format("the context of {} is shorter than the {} that tuning needs; "
                      "give a larger --ctx",
                      CountOf(model->context_tokens, "token"), CountText(kLeastTuneTokens)));
    }
    TuneOptions options;
    options.max_kl = max_kl_.value_or(options.max_kl);
    Result<std::vector<std::vector<TokenId>>> encoded = Encode(texts, wanted, *model, console);
    if (!encoded) return Forward(encoded);
    options.texts = *std::move(encoded);
    return compute_.Finish(
        TuneAndSave(*model, options, {.path = path, .fingerprint = FingerprintOf(*file)}, console),
        console);
  }

 private:
  struct Target {
    std::string path;
    Hash128 fingerprint;
  };

  // Who named no place may not know that one can be named.
  Result<> WithWayOut(const Result<>& failed) const {
    if (output_) return failed;
    return Fail(failed.error().code,
                failed.error().message + "; --tune-file FILE saves it elsewhere");
  }

  // What is lost is a mean over texts: one that came twice, under whatever name, would weigh twice.
  static Result<> CheckOther(const std::string& name, const std::string& text,
                             const std::vector<NamedText>& texts) {
    for (const NamedText& earlier : texts) {
      if (earlier.text != text) continue;
      return Fail(
          ErrorCode::kInvalid,
          fmt::format(
              "{}: the same text as {}, and would count twice; name another, or leave one out",
              name, earlier.name));
    }
    return {};
  }

  // The tokens of each text, as long as they are read.
  Result<std::vector<std::vector<TokenId>>> Encode(const std::vector<NamedText>& texts,
                                                   const TokensWanted& wanted,
                                                   const LoadedModel& model,
                                                   Console& console) const {
    std::vector<TextTokens> all;
    for (const NamedText& text : texts) {
      Result<std::vector<TokenId>> tokens =
          model.tokenizer->Encode(text.text, {.add_special = true, .parse_special = false});
      if (!tokens) return Forward(tokens);
      all.push_back({.name = text.name, .tokens = *std::move(tokens)});
      const int64_t size = std::ssize(all.back().tokens);
      if (size >= kLeastTuneTokens) continue;
      return Fail(ErrorCode::kInvalid,
                  fmt::format("{}: has {}; a text to tune with needs at least {}", text.name,
                              CountOf(size, "token"), CountText(kLeastTuneTokens)));
    }
    std::vector<std::vector<TokenId>> taken;
    for (TextTokens& text : all) {
      Result<std::vector<TokenId>> tokens = TakeTokens(std::move(text), wanted, model, console);
      if (!tokens) return Forward(tokens);
      taken.push_back(*std::move(tokens));
    }
    return taken;
  }

  Result<> TuneAndSave(LoadedModel& model, const TuneOptions& options, const Target& target,
                       Console& console) const {
    Progress progress(console.status, console.clock,
                      {.what = "Tuning",
                       .unit = ProgressUnit::kTokens,
                       .columns = console.columns,
                       .lines = &console.err});
    const InterruptScope scope(console.interrupt);
    const Result<TuneResult> result = Tune(
        model, options, [&](int64_t done, int64_t total) { progress.Update(done, total); },
        console.interrupt.requested());
    progress.Clear();
    if (!result) return Forward(result);
    if (!result->meets_kl) {
      return Fail(
          ErrorCode::kInvalid,
          fmt::format("no policy that was tried keeps to a KL of {} nats; the nearest loses "
                      "{:.4f} and reads {:.1f}% of the past's blocks; allow more with --kl",
                      options.max_kl, result->chosen.kl, 100 * result->chosen.density));
    }
    const Tuning tuning{.path = target.path,
                        .policy = result->chosen.policy,
                        .break_even_tokens = result->break_even_tokens};
    const std::string measured = TuneJson(*result, options);
    Result<> written =
        WriteTuneFile({.tuning = tuning, .fingerprint = target.fingerprint, .measured = measured});
    if (!written) {
      // What took minutes is not lost with the place to keep it.
      (void)console.out.Write(json_ ? Json(tuning, measured)
                                    : ResultText(*result, options, console.answer_columns));
      return WithWayOut(written);
    }
    return console.out.Write(json_ ? Json(tuning, measured)
                                   : ResultText(*result, options, console.answer_columns) +
                                         fmt::format("saved       {}\n", target.path));
  }

  static std::string Json(const Tuning& tuning, const std::string& measured) {
    nlohmann::ordered_json json = {{"file", tuning.path},
                                   {"policy", PolicyText(tuning.policy)},
                                   {"break_even_tokens", nullptr},
                                   {"measured", nlohmann::ordered_json::parse(measured)}};
    if (tuning.break_even_tokens) json["break_even_tokens"] = *tuning.break_even_tokens;
    return JsonText(json);
  }

  ModelArgument model_;
  ComputeOptions compute_;
  std::vector<std::string> text_paths_;
  std::optional<double> max_kl_;
  std::optional<int64_t> tokens_;
  bool json_ = false;
  std::optional<std::string> output_;
};

}  // namespace

std::unique_ptr<Command> MakeTuneCommand() {
  return std::make_unique<TuneCommand>();
}

}  // namespace baton
