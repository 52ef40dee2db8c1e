// The options of every command that computes: how to open the model and run it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/option_set.h"
#include "engine/loaded_model.h"

namespace baton {

// --threads, --chunk, --isa, --ctx, --precision.
class ComputeOptions {
 public:
  void Declare(OptionSet& options);

  // How to open the model at `path`; threads default to what this process may use.
  LoadOptions ToLoadOptions(const std::string& path) const;

 private:
  std::optional<int64_t> threads_;
  std::optional<int64_t> chunk_;
  std::optional<int64_t> context_;
  std::optional<std::string> precision_name_;
  std::optional<Isa> isa_;
};

}  // namespace baton
