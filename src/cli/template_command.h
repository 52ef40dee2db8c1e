// What `baton template` does once its files are read: texts in, the rendered prompt out.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/template_engine.h"
#include "text/template_value.h"

namespace baton {

// A text and what to call it in messages: "'tools.json'", "standard input".
struct NamedText {
  std::string name;
  std::string text;
};

using TemplateVariable = std::pair<std::string, templates::Value>;

// Reads NAME=JSON. Errors: invalid (not of this form, or a name that the command itself sets).
Result<TemplateVariable> ParseTemplateVariable(const std::string& text);

struct TemplateCommandOptions {
  std::string template_text;
  // JSON: a list of messages, or an object with messages and, optionally, tools, documents and
  // extra (an object of further variables).
  NamedText messages;
  std::optional<NamedText> tools;  // JSON: a list of tools; overrides that of the messages
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  // Whether contents and tool call arguments are adapted to the template, as for requests; else
  // they are rendered in the shapes given.
  bool adapt_shapes = false;
  std::string bos_token;
  std::string eos_token;
  CivilTime now;
  std::vector<TemplateVariable> variables;
};

// The prompt.
// Errors: kInvalid for texts that are not what they should be; those of ChatTemplate.
Result<std::string> RenderTemplateCommand(const TemplateCommandOptions& options);

}  // namespace baton
