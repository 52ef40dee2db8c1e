#include "cli/chat_template_option.h"

#include <utility>

namespace baton {

void ChatTemplateOption::Declare(OptionSet& options) {
  options.Text({.names = "--chat-template",
                .value = "NAME|FILE",
                .help = "Use this template instead of the model's own: a built-in one, or a file "
                        "(a value with a dot or a slash)"},
               &value_);
}

Result<> ChatTemplateOption::Apply(Input& standard_input, LoadOptions& load) const {
  if (!value_.has_value()) return {};
  if (value_->find_first_of("./") == std::string::npos) {
    load.chat_template_name = *value_;
    return {};
  }
  Result<std::string> text = ReadTextOrInput(*value_, standard_input);
  if (!text) return Forward(text);
  load.chat_template_text = std::move(*text);
  return {};
}

}  // namespace baton
