#include "cli/chat_template_option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/near_match.h"
#include "cli/printable.h"
#include "text/chat_template.h"

namespace baton {
namespace {

constexpr size_t kMaxQuotedBytes = 60;

// Not one of the names that are built in.
bool NamesFile(const std::string& value) {
  return value.find_first_of("./") != std::string::npos;
}

}  // namespace

void ChatTemplateOption::Declare(OptionSet& options) {
  options.ParsedFile(
      {.names = "--chat-template",
       .value = "NAME|FILE",
       .help = "Use this template instead of the model's own: a built-in one, or a "
               "file (a value with a dot or a slash)"},
      [this](const std::string& given) { return Take(given); }, NamesFile);
}

Result<> ChatTemplateOption::Take(const std::string& given) {
  value_ = given;
  if (IsFile()) return {};
  const std::vector<std::string_view> known = ChatTemplate::BuiltinNames();
  const std::vector<std::string> names(known.begin(), known.end());
  if (std::find(names.begin(), names.end(), given) != names.end()) return {};
  std::error_code error;
  const bool is_there = !given.empty() && std::filesystem::is_regular_file(given, error);
  const std::string hint =
      is_there ? fmt::format("; the file of this name is './{}'", Printable(given, kMaxQuotedBytes))
               : DidYouMean(given, names);
  return Fail(ErrorCode::kInvalid,
              fmt::format("takes {}, or a file (with a dot or a slash), not '{}'{}",
                          fmt::join(names, ", "), Printable(given, kMaxQuotedBytes), hint));
}

bool ChatTemplateOption::IsFile() const {
  return NamesFile(*value_);
}

Result<> ChatTemplateOption::Apply(Input& standard_input, LoadOptions& load) const {
  if (!value_.has_value()) return {};
  if (!IsFile()) {
    load.chat_template_name = *value_;
    return {};
  }
  Result<std::string> text = ReadTextOrInput(*value_, standard_input);
  if (!text) return Forward(text);
  load.chat_template_text = std::move(*text);
  return {};
}

}  // namespace baton
