// What `baton template` does once its arguments are read: files in, the rendered prompt out.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/template_engine.h"

namespace baton {

struct TemplateCommandOptions {
  // The template: the text of a model file's template, or the path of a file with one.
  std::optional<std::string> template_text;
  std::optional<std::string> template_file;
  // JSON: a list of messages, or an object with messages and, optionally, tools, documents and
  // extra (an object of further variables).
  std::string messages_file;
  std::optional<std::string> tools_file;  // JSON: a list of tools; overrides that of the messages
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  // Whether contents and tool call arguments are adapted to the template, as for requests; else
  // they are rendered in the shapes given.
  bool adapt_shapes = false;
  std::string bos_token;
  std::string eos_token;
  std::optional<std::string> now;      // as ParseCivilTime reads it; nothing: `clock`
  CivilTime clock;                     // the present time, read by the caller
  std::vector<std::string> variables;  // NAME=JSON
};

// The prompt.
// Errors: kNotFound and kInternal for files, kInvalid for their contents and for options that
// exclude each other; those of ChatTemplate.
Result<std::string> RenderTemplateCommand(const TemplateCommandOptions& options);

}  // namespace baton
