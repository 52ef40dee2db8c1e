#include "cli/model_argument.h"

#include <fmt/format.h>

namespace baton {
namespace {

// What other commands make of the model: only they write it.
std::vector<CompanionFile> CompanionsOfModel() {
  return {{.ending = ".packed"}, {.ending = ".tune.json", .writer = "--tune-file"}};
}

}  // namespace

void ModelArgument::Declare(OptionSet& options, bool also_dash) {
  also_dash_ = also_dash;
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
  if (also_dash_) has_dash_ = std::erase(positional_, "-") > 0;
  const size_t given = positional_.size() + named_.size();
  if (given == 0) return Fail(ErrorCode::kInvalid, "name a model file: MODEL");
  if (given == 1) return {};
  return Fail(ErrorCode::kInvalid, fmt::format("{} model files are named, one is wanted{}", given,
                                               also_dash_ ? "; a question goes with -p" : ""));
}

}  // namespace baton
