// What evaluations of sparse prefill have in common: a text, so many of its tokens, policies.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "cli/console.h"
#include "cli/option_set.h"
#include "engine/loaded_model.h"
#include "kernels/sparse_policy.h"

namespace baton {

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

// The first `wanted` tokens of a text as a prompt has them (BOS in front if the vocabulary adds
// it), or all of them up to the model's context if nothing is wanted. Errors: invalid (a text that
// is too short, with both numbers).
Result<std::vector<TokenId>> PromptTokens(const LoadedModel& model, const std::string& text,
                                          std::optional<int64_t> wanted);

// --sparse, given as often as there are policies to compare.
void DeclarePolicies(OptionSet& options, std::vector<SparsePolicy>* policies);
// --sparse, given once.
void DeclarePolicy(OptionSet& options, std::optional<SparsePolicy>* policy);

}  // namespace baton
