#include "cli/eval_text.h"

#include <fmt/format.h>

#include "base/number_text.h"
#include "cli/input.h"
#include "engine/prefill_wish.h"

namespace baton {
namespace {

constexpr size_t kMaxPolicies = 64;

Result<> TakePolicy(const std::string& given, std::optional<SparsePolicy>* policy) {
  Result<SparsePolicy> parsed = ParseSparseWords(given);
  if (!parsed) return Fail(parsed.error().code, ": " + parsed.error().message);
  *policy = *std::move(parsed);
  return {};
}

}  // namespace

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

Result<std::vector<TokenId>> PromptTokens(const LoadedModel& model, const std::string& text,
                                          std::optional<int64_t> wanted) {
  Result<std::vector<TokenId>> tokens =
      model.tokenizer->Encode(text, {.add_special = true, .parse_special = false});
  if (!tokens) return Forward(tokens);
  const int64_t size = std::ssize(*tokens);
  if (size == 0) return Fail(ErrorCode::kInvalid, "the text is empty");
  if (wanted.has_value() && size < *wanted) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("the text has {} tokens, fewer than the {} wanted; give a longer text "
                            "or a smaller number",
                            CountText(size), CountText(*wanted)));
  }
  tokens->resize(static_cast<size_t>(wanted.value_or(std::min(size, model.context_tokens))));
  return tokens;
}

void DeclarePolicies(OptionSet& options, std::vector<SparsePolicy>* policies) {
  options.ParsedEach({.names = "--sparse",
                      .value = "POLICY",
                      .help = "A policy of --prefill sparse, as words 'name=value' "
                              "(docs/sparse.md); may be repeated (default: the default policy)"},
                     [policies](const std::string& given) -> Result<> {
                       if (policies->size() == kMaxPolicies) {
                         return Fail(ErrorCode::kInvalid,
                                     fmt::format(" takes at most {} policies", kMaxPolicies));
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

}  // namespace baton
