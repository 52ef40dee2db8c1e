#include "cli/eval_logits_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <utility>

#include "base/number_text.h"
#include "cli/model_argument.h"
#include "cli/model_options.h"
#include "cli/open_model.h"
#include "cli/progress.h"
#include "cli/token_ids.h"
#include "engine/generator.h"
#include "evaluate/log_sum_exp.h"
#include "sample/top_select.h"

namespace baton {
namespace {

constexpr size_t kFlushBytes = size_t{1} << 16;

// The n ids with the highest logits, best first. What is no number, or −infinity, is left out.
std::vector<Candidate> Top(std::span<const float> logits, int64_t n) {
  std::vector<double> values(logits.size());
  std::transform(logits.begin(), logits.end(), values.begin(), [](float logit) {
    return std::isnan(logit) ? -std::numeric_limits<double>::infinity() : logit;
  });
  std::vector<Candidate> best;
  SelectTop(values, n, best);
  return best;
}

class EvalLogitsCommand final : public Command {
 public:
  CommandText Text() const override {
    return {.name = "eval logits",
            .summary = "logits at positions of a sequence of tokens",
            .usages = {"MODEL --ids FILE [--positions all|LIST] [--top N] [--tokens LIST] "
                       "[--json]"},
            .description =
                {"Runs the model over token ids, exactly those of the file with nothing added, "
                 "and prints for each position what the model expects after it: the logarithm of "
                 "the sum of exp of all logits, the highest logits with their log-probabilities, "
                 "and the logits of chosen tokens. Numbers read back to the same binary32.",
                 "The JSON object is {\"tokens\": [ids of --tokens], \"positions\": [{\"pos\": P, "
                 "\"logsumexp\": X, \"top\": [[ID, LOGIT, LOGPROB], ...], \"token_logits\": "
                 "[...]}]}, positions ascending; what is not finite is null. One that was begun "
                 "and then stopped ends with the key \"error\" behind the positions done."},
            .examples = {"echo '[1, 9690, 198]' | baton eval logits model.gguf --ids - "
                         "--positions 2 --top 5 --json"}};
  }

  void Declare(OptionSet& options) override {
    model_.Declare(options);
    options.Group("Evaluation");
    options.File({.names = "--ids",
                  .value = "FILE",
                  .help = "Token ids: a JSON list, or numbers between blanks; - is standard "
                          "input",
                  .dash_is_input = true},
                 &ids_path_);
    options.Parsed({.names = "--positions",
                    .value = "LIST",
                    .help = "all, or positions and ranges from 0: 0,5,10-20 (default: all)"},
                   [this](const std::string& given) { return TakePositions(given); });
    options.Integer(
        {.names = "--top", .value = "N", .help = "Highest logits to print (default: 10)"},
        {.min = 0, .max = ModelLimits::kMaxVocabulary}, &top_);
    options.Parsed({.names = "--tokens",
                    .value = "LIST",
                    .help = "Ids whose logits to print, separated by commas"},
                   [this](const std::string& given) { return TakeTokens(given); });
    options.Flag({.names = "--json", .value = "", .help = "Print one JSON object"}, &json_);
    compute_.Declare(options);
  }

  Result<> Check() override {
    const Result<> model = model_.Check();
    if (!model) return model;
    if (!ids_path_.has_value()) {
      return Fail(ErrorCode::kInvalid, "name the file of token ids: --ids FILE");
    }
    return compute_.Check();
  }

  Result<> Run(Console& console) override {
    const Result<std::string> text = ReadTextOrInput(*ids_path_, console.in);
    if (!text) return Forward(text);
    const std::string name =
        *ids_path_ == "-" ? std::string("standard input") : fmt::format("'{}'", *ids_path_);
    const Result<std::vector<TokenId>> ids = ParseTokenIds(*text, name);
    if (!ids) return Forward(ids);
    if (ids->empty()) return Fail(ErrorCode::kInvalid, name + ": the list of token ids is empty");
    const auto num_tokens = static_cast<int64_t>(ids->size());
    if (positions_.has_value() && positions_->back() >= num_tokens) {
      return Fail(
          ErrorCode::kInvalid,
          fmt::format("--positions names {}; {} has {}, with the positions from 0 to {}",
                      positions_->back(), name, CountOf(num_tokens, "token"), num_tokens - 1));
    }
    const Result<LoadOptions> load = compute_.ToLoadOptions(model_.path(), console.clock);
    if (!load) return Forward(load);
    Result<LoadedModel> model = OpenModel(*load, console);
    if (!model) return Forward(model);
    const int64_t vocab_size = model->model->spec().vocab_size;
    const Result<> known = CheckTokenIds(*ids, vocab_size, name);
    if (!known) return known;
    const Result<> known_tokens = CheckTokenIds(token_ids_, vocab_size, "--tokens");
    if (!known_tokens) return known_tokens;
    return compute_.Finish(
        Print(*ids, positions_.value_or(AllPositions(num_tokens)), *model, console), console);
  }

 private:
  Result<> TakeTokens(const std::string& given) {
    Result<std::vector<TokenId>> ids = ParseTokenIdOption(given);
    if (!ids) return Fail(ids.error().code, ": " + ids.error().message);
    token_ids_ = *std::move(ids);
    return {};
  }

  Result<> TakePositions(const std::string& given) {
    if (given == "all") return {};
    Result<std::vector<int64_t>> chosen = ParsePositions(
        given, {.end = ModelLimits::kMaxContext, .max_count = ModelLimits::kMaxContext});
    if (!chosen) return Fail(chosen.error().code, ": " + chosen.error().message);
    std::sort(chosen->begin(), chosen->end());
    chosen->erase(std::unique(chosen->begin(), chosen->end()), chosen->end());
    positions_ = *std::move(chosen);
    return {};
  }

  static std::vector<int64_t> AllPositions(int64_t num_tokens) {
    std::vector<int64_t> all(static_cast<size_t>(num_tokens));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  Result<> Print(const std::vector<TokenId>& ids, const std::vector<int64_t>& positions,
                 LoadedModel& model, Console& console) {
    Result<Generator> generator = Generator::Make(model);
    if (!generator) return Forward(generator);
    std::string text =
        json_ ? fmt::format("{{\"tokens\": {}, \"positions\": [", TokensJson()) : std::string();
    bool is_begun = false;  // on standard output
    Progress progress(
        console.status, console.clock,
        {.what = "Evaluating", .unit = ProgressUnit::kTokens, .columns = console.columns});
    Result<> written;
    std::vector<double> partials;
    bool first = true;
    const InterruptScope scope(console.interrupt);
    const Result<> done = generator->Logits(
        ids, positions,
        [&](int64_t position, std::span<const float> logits) {
          if (!written) return;
          progress.Update(position + 1, static_cast<int64_t>(ids.size()));
          if (json_ && !first) text += ", ";
          first = false;
          const double log_sum = LogSumExp(logits, *model.pool, partials);
          text += json_ ? PositionJson(position, logits, log_sum)
                        : PositionText(position, logits, log_sum);
          if (text.size() < kFlushBytes) return;
          progress.Clear();
          is_begun = true;
          written = console.out.Write(std::exchange(text, std::string()));
          if (!written) console.interrupt.Request();
        },
        console.interrupt.requested());
    progress.Clear();
    if (!written) return written;
    if (!done || console.interrupt.requested()) {
      const bool is_stopped = done || done.error().code == ErrorCode::kCancelled;
      const Error error =
          is_stopped ? Error{ErrorCode::kCancelled, "stopped by Ctrl-C"} : done.error();
      // What is begun becomes a whole object that says it lacks the rest.
      if (json_ && is_begun) {
        (void)console.out.Write(
            fmt::format("{}], \"error\": {}}}\n", text, nlohmann::json(error.message).dump()));
      }
      return tl::unexpected<Error>(error);
    }
    if (json_) text += "]}\n";
    return console.out.Write(text);
  }

  std::string TokensJson() const {
    std::string text = "[";
    for (const TokenId id : token_ids_) text += fmt::format("{}{}", text == "[" ? "" : ", ", id);
    return text + "]";
  }

  std::string PositionJson(int64_t position, std::span<const float> logits, double log_sum) const {
    std::string text = fmt::format("{{\"pos\": {}, \"logsumexp\": {}, \"top\": [", position,
                                   FloatJson(static_cast<float>(log_sum)));
    bool first = true;
    for (const auto& [id, logit] : Top(logits, top_.value_or(kDefaultTop))) {
      text +=
          fmt::format("{}[{}, {}, {}]", first ? "" : ", ", id, FloatJson(static_cast<float>(logit)),
                      FloatJson(static_cast<float>(logit - log_sum)));
      first = false;
    }
    text += "], \"token_logits\": [";
    first = true;
    for (const TokenId id : token_ids_) {
      text += fmt::format("{}{}", first ? "" : ", ", FloatJson(logits[static_cast<size_t>(id)]));
      first = false;
    }
    return text + "]}";
  }

  std::string PositionText(int64_t position, std::span<const float> logits, double log_sum) const {
    std::string text = fmt::format("position {}  logsumexp {}\n", position,
                                   FloatJson(static_cast<float>(log_sum)));
    for (const auto& [id, logit] : Top(logits, top_.value_or(kDefaultTop))) {
      text += fmt::format("  top {:>7}  logit {}  logprob {}\n", id,
                          FloatJson(static_cast<float>(logit)),
                          FloatJson(static_cast<float>(logit - log_sum)));
    }
    for (const TokenId id : token_ids_) {
      text +=
          fmt::format("  token {:>5}  logit {}\n", id, FloatJson(logits[static_cast<size_t>(id)]));
    }
    return text;
  }

  static constexpr int64_t kDefaultTop = 10;

  ModelArgument model_;
  ComputeOptions compute_;
  std::optional<std::string> ids_path_;
  std::optional<std::vector<int64_t>> positions_;  // ascending; nothing: all
  std::optional<int64_t> top_;
  std::vector<TokenId> token_ids_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeEvalLogitsCommand() {
  return std::make_unique<EvalLogitsCommand>();
}

}  // namespace baton
