#include "cli/prompt_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace baton {
namespace {

std::string SourceName(const std::string& path) {
  return path == "-" ? std::string("standard input") : fmt::format("'{}'", path);
}

void DropLineEnds(std::string& text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
}

}  // namespace

std::string JoinTexts(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) {
    if (text.empty()) continue;
    if (!joined.empty()) {
      DropLineEnds(joined);
      joined += "\n\n";
    }
    joined += text;
  }
  return joined;
}

Result<std::string> ReadPrompt(const PromptSources& sources, Input& standard_input) {
  std::vector<std::string> parts;
  for (const std::string& path : sources.files) {
    Result<std::string> text = ReadTextOrInput(path, standard_input);
    if (!text) return text;
    text = RequireUtf8(std::move(*text), SourceName(path));
    if (!text) return text;
    parts.push_back(std::move(*text));
  }
  if (sources.question.has_value()) {
    const bool from_input = *sources.question == "-";
    Result<std::string> text = from_input ? standard_input.ReadAll(kMaxInputBytes)
                                          : Result<std::string>(*sources.question);
    if (!text) return text;
    text = RequireUtf8(std::move(*text), from_input ? "standard input" : "the text of --prompt");
    if (!text) return text;
    parts.push_back(std::move(*text));
  }
  std::string prompt = JoinTexts(parts);
  if (prompt.empty()) {
    return Fail(ErrorCode::kInvalid,
                "the prompt is empty; ask something with -p, or give a text with -f");
  }
  return prompt;
}

}  // namespace baton
