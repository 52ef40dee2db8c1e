#include "cli/eval_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/number_text.h"
#include "cli/input.h"
#include "cli/note.h"
#include "cli/open_model.h"
#include "engine/prefill_wish.h"
#include "model/model_spec.h"

namespace baton {
namespace {

constexpr size_t kMaxPolicies = 64;

Result<> TakePolicy(const std::string& given, std::optional<SparsePolicy>* policy) {
  Result<SparsePolicy> parsed = ParseSparseWords(given);
  if (!parsed) return Fail(parsed.error().code, ": " + parsed.error().message);
  *policy = *std::move(parsed);
  return {};
}

// That more is asked for than the context has; and than a text has, as who heard of one limit only
// would run into the other.
tl::unexpected<Error> BeyondContext(const TokensWanted& wanted, const LoadOptions& options,
                                    int64_t context, const std::vector<NamedText>& texts) {
  const NamedText* shortest = nullptr;
  int64_t least = *wanted.given;
  const Result<Tokenizer> tokenizer = OpenTokenizer(options.path);
  for (const NamedText& text : texts) {
    // What keeps a file from being read is told once the wish is one that can be met.
    if (!tokenizer) break;
    const Result<std::vector<TokenId>> tokens =
        tokenizer->Encode(text.text, {.add_special = true, .parse_special = false});
    if (!tokens || std::ssize(*tokens) >= least) continue;
    shortest = &text;
    least = std::ssize(*tokens);
  }
  std::string message = fmt::format("{} asks for {}, and the context has {}", wanted.option,
                                    CountOf(*wanted.given, "token"), CountText(context));
  if (shortest == nullptr) {
    message += "; ask for fewer, or give a larger --ctx";
  } else {
    message += fmt::format(", {} {}; ask for at most {}, or give a longer text and a larger --ctx",
                           shortest->name, CountText(least), std::min(least, context));
  }
  return Fail(ErrorCode::kInvalid, message);
}

}  // namespace

Result<LoadedModel> OpenModelFor(const TokensWanted& wanted, LoadOptions options,
                                 const std::vector<NamedText>& texts, Console& console) {
  const Result<int64_t> context = ContextOf(options);
  if (!context) return Forward(context);
  if (wanted.given.value_or(0) > *context) {
    return BeyondContext(wanted, options, *context, texts);
  }
  if (!options.context_tokens) {
    options.context_tokens =
        std::min(*context, wanted.given.value_or(wanted.usual.value_or(*context)));
  }
  return OpenModel(options, console);
}

Result<std::vector<TokenId>> TakeTokens(TextTokens text, const TokensWanted& wanted,
                                        const LoadedModel& model, Console& console) {
  const int64_t size = std::ssize(text.tokens);
  if (wanted.given && size < *wanted.given) {
    return Fail(
        ErrorCode::kInvalid,
        fmt::format("{}: has {}, fewer than the {} wanted; give a longer text or a smaller "
                    "{}",
                    text.name, CountOf(size, "token"), CountText(*wanted.given), wanted.option));
  }
  if (wanted.given) {
    text.tokens.resize(static_cast<size_t>(*wanted.given));
    return std::move(text.tokens);
  }
  const bool is_usual = wanted.usual && *wanted.usual <= model.context_tokens;
  const int64_t most = is_usual ? *wanted.usual : model.context_tokens;
  if (size > most) {
    Note(fmt::format("{}: the first {} of {} are read, {}", text.name, CountText(most),
                     CountOf(size, "token"),
                     is_usual ? fmt::format("unless {} says otherwise", wanted.option)
                              : "as many as the context has"),
         console);
    text.tokens.resize(static_cast<size_t>(most));
  } else if (wanted.usual && size < *wanted.usual) {
    Note(fmt::format("{}: has {}, fewer than the usual {}; all are read", text.name,
                     CountOf(size, "token"), CountText(*wanted.usual)),
         console);
  }
  return std::move(text.tokens);
}

void EvalText::Declare(OptionSet& options) {
  options.File({.names = "--text",
                .value = "FILE",
                .help = "The text; - is standard input",
                .dash_is_input = true},
               &path_);
}

Result<> EvalText::Check() const {
  if (!path_.has_value()) return Fail(ErrorCode::kInvalid, "name the text: --text FILE");
  return {};
}

Result<std::string> EvalText::Read(Console& console) const {
  Result<std::string> text = ReadTextOrInput(*path_, console.in);
  if (!text) return Forward(text);
  return RequireUtf8(*std::move(text), *path_);
}

std::string EvalText::Name() const {
  if (*path_ == "-") return "standard input";
  const size_t slash = path_->rfind('/');
  return slash == std::string::npos ? *path_ : path_->substr(slash + 1);
}

void EvalPromptOptions::Declare(OptionSet& options) {
  text_.Declare(options);
  options.Integer({.names = "--tokens",
                   .value = "N",
                   .help = "Tokens of the prompt, from the text's start (default: the whole text, "
                           "at most the context)"},
                  {.min = 1, .max = ModelLimits::kMaxContext}, &tokens_);
}

Result<EvalPrompt> EvalPromptOptions::Open(const std::string& model_path, ComputeOptions& compute,
                                           Console& console) const {
  const Result<std::string> text = text_.Read(console);
  if (!text) return Forward(text);
  const Result<LoadOptions> load = compute.ToLoadOptions(model_path, console.clock);
  if (!load) return Forward(load);
  const TokensWanted wanted{.given = tokens_};
  Result<LoadedModel> model = OpenModelFor(wanted, *load, {{Name(), *text}}, console);
  if (!model) return Forward(model);
  Result<std::vector<TokenId>> tokens =
      model->tokenizer->Encode(*text, {.add_special = true, .parse_special = false});
  if (!tokens) return Forward(tokens);
  if (tokens->empty()) return Fail(ErrorCode::kInvalid, Name() + ": is empty; give a text");
  tokens = TakeTokens({.name = Name(), .tokens = *std::move(tokens)}, wanted, *model, console);
  if (!tokens) return Forward(tokens);
  return EvalPrompt{.model = *std::move(model), .tokens = *std::move(tokens)};
}

void DeclarePolicies(OptionSet& options, std::vector<SparsePolicy>* policies) {
  options.ParsedEach({.names = "--sparse",
                      .value = "POLICY",
                      .help = "A policy of --prefill sparse, as words 'name=value' "
                              "(docs/sparse.md); may be repeated (default: the default policy)"},
                     [policies](const std::string& given) -> Result<> {
                       if (policies->size() == kMaxPolicies) {
                         return Fail(ErrorCode::kInvalid,
                                     fmt::format("takes at most {} policies", kMaxPolicies));
                       }
                       std::optional<SparsePolicy> policy;
                       if (Result<> taken = TakePolicy(given, &policy); !taken) return taken;
                       policies->push_back(*std::move(policy));
                       return {};
                     });
}

void DeclarePolicy(OptionSet& options, std::optional<SparsePolicy>* policy) {
  options.Parsed({.names = "--sparse",
                  .value = "POLICY",
                  .help = "A policy of --prefill sparse, as words 'name=value' (docs/sparse.md; "
                          "default: the default policy)"},
                 [policy](const std::string& given) { return TakePolicy(given, policy); });
}

void NoteNothingLeftOut(const std::vector<NothingLeftOut>& all, const LoadedModel& model,
                        Console& console) {
  const std::string text = NothingLeftOutText(all, model.model->spec());
  if (!text.empty()) Note(text, console);
}

}  // namespace baton
