// --chat-template, of the commands that answer.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "cli/input.h"
#include "cli/option_set.h"
#include "engine/loaded_model.h"

namespace baton {

// A value with a dot or a slash is a file, any other must be the name of a built-in template.
class ChatTemplateOption {
 public:
  void Declare(OptionSet& options);

  bool given() const { return value_.has_value(); }

  // Sets the template in `load`, if one is given. Errors: as ReadTextOrInput.
  Result<> Apply(Input& standard_input, LoadOptions& load) const;

 private:
  Result<> Take(const std::string& given);
  bool IsFile() const;

  std::optional<std::string> value_;
};

}  // namespace baton
