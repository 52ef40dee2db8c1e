// What evaluations of sparse prefill have in common: texts, so many of their tokens, a model with
// room for them, policies.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "cli/console.h"
#include "cli/model_options.h"
#include "cli/option_set.h"
#include "engine/loaded_model.h"
#include "evaluate/left_out.h"
#include "kernels/sparse_policy.h"

namespace baton {

// How many tokens of a text are read.
struct TokensWanted {
  // By an option, as it is written: text and context must have so many.
  std::optional<int64_t> given = std::nullopt;
  std::string_view option = "--tokens";
  // Without it: at most so many, as far as text and context have them; nothing: the whole text.
  std::optional<int64_t> usual = std::nullopt;
};

// A text that is to be read, and what it is called.
struct NamedText {
  std::string name;
  std::string text;
};

// Opens the model with the context of --ctx, else with that of its training or, where it is known
// that fewer tokens are read, with as many. Errors: as OpenModel; invalid (more are wanted than the
// context has, with both numbers, and with the text's if it has fewer, too).
Result<LoadedModel> OpenModelFor(const TokensWanted& wanted, LoadOptions options,
                                 const std::vector<NamedText>& texts, Console& console);

// A text's tokens, as many as are wanted. Says so where fewer are read than there are or are usual.
// `name`: of the text. Errors: invalid (fewer than given, with both numbers).
struct TextTokens {
  std::string name;
  std::vector<TokenId> tokens;
};
Result<std::vector<TokenId>> TakeTokens(TextTokens text, const TokensWanted& wanted,
                                        const LoadedModel& model, Console& console);

// --text.
class EvalText {
 public:
  void Declare(OptionSet& options);

  // Errors: invalid (no text named).
  Result<> Check() const;

  // The text. Errors: as ReadTextOrInput; invalid (not UTF-8).
  Result<std::string> Read(Console& console) const;

  // For reports.
  std::string Name() const;

 private:
  std::optional<std::string> path_;
};

// A model, and the prompt that it is evaluated on.
struct EvalPrompt {
  LoadedModel model;
  std::vector<TokenId> tokens;  // BOS in front if the vocabulary adds it
};

// --text and --tokens: a text that is read as one prompt.
class EvalPromptOptions {
 public:
  void Declare(OptionSet& options);
  Result<> Check() const { return text_.Check(); }
  std::string Name() const { return text_.Name(); }

  // Reads the text, opens the model, cuts the text. Errors: as EvalText::Read, OpenModelFor and
  // TakeTokens; invalid (an empty text).
  Result<EvalPrompt> Open(const std::string& model_path, ComputeOptions& compute,
                          Console& console) const;

 private:
  EvalText text_;
  std::optional<int64_t> tokens_;
};

// What says there how prompts are read, for ComputeOptions::DeclareWithoutPrefill.
inline constexpr char kPoliciesInstead[] =
    "prompts are read densely and by each policy that --sparse POLICY names";
// --sparse, given as often as there are policies to compare.
void DeclarePolicies(OptionSet& options, std::vector<SparsePolicy>* policies);
// --sparse, given once.
void DeclarePolicy(OptionSet& options, std::optional<SparsePolicy>* policy);

// Says which policies left nothing out, if any did.
void NoteNothingLeftOut(const std::vector<NothingLeftOut>& all, const LoadedModel& model,
                        Console& console);

}  // namespace baton
