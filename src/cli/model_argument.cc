#include "cli/model_argument.h"

#include <fmt/format.h>

#include <utility>

namespace baton {
namespace {

// What other commands make of the model: only they write it.
std::vector<CompanionFile> CompanionsOfModel() {
  return {{.ending = ".packed"}, {.ending = ".tune.json", .writer = "--tune-file"}};
}

}  // namespace

void ModelArgument::Declare(OptionSet& options) {
  DeclareNames(options, /*also_dash=*/false);
}

void ModelArgument::DeclareWithDash(OptionSet& options, std::string instead) {
  instead_of_second_ = std::move(instead);
  DeclareNames(options, /*also_dash=*/true);
}

void ModelArgument::DeclareNames(OptionSet& options, bool also_dash) {
  const std::vector<CompanionFile> companions = CompanionsOfModel();
  options.Group("Model");
  options.Positional({.names = "MODEL",
                      .value = "",
                      .help = "Model file (GGUF)",
                      .dash_is_input = also_dash,
                      .companions = companions},
                     also_dash ? 2 : 1, &positional_);
  options.Files({.names = "-m,--model",
                 .value = "MODEL",
                 .help = "The same, as an option",
                 .companions = companions},
                &named_);
}

Result<> ModelArgument::Check() {
  const bool also_dash = !instead_of_second_.empty();
  if (also_dash) has_dash_ = std::erase(positional_, "-") > 0;
  const size_t given = positional_.size() + named_.size();
  if (given == 0) return Fail(ErrorCode::kInvalid, "name a model file: MODEL");
  if (given == 1) return {};
  return Fail(ErrorCode::kInvalid, fmt::format("{} model files are named, one is wanted{}{}", given,
                                               also_dash ? "; " : "", instead_of_second_));
}

}  // namespace baton
