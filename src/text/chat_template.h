// From a conversation to a prompt: a model's chat template, fed in the shapes that it reads.
//
// Templates differ in what they expect: the content of a message as a string or as a list of
// parts, the arguments of a tool call as an object or as a JSON string, tools or none. Which of
// them one reads is found out once, by rendering small probes; conversations are then adapted
// (RenderAdapted).
//
// Rules of adaptation:
// - Text parts join in order, with nothing between them. Parts of other types are refused.
// - A template that reads strings gets a string, one that reads only parts gets one text part.
// - Arguments of tool calls are one JSON object. A string is parsed; "" means no arguments;
//   broken JSON, and JSON that is not an object, are refused with the message's index. Templates
//   that print arguments as they are get one JSON text, in the style of json.dumps.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/template_engine.h"
#include "text/template_json.h"
#include "text/template_value.h"

namespace baton {

// What a template is asked to render. Values come from TemplateValueFromJson and its kin.
struct ChatTemplateInputs {
  templates::Value messages;                              // list of dicts with role, content, ...
  templates::Value tools = templates::Value::None();      // list of dicts, or None
  templates::Value documents = templates::Value::None();  // list of dicts, or None
  std::vector<std::pair<std::string, templates::Value>> variables = {};  // any others
  bool add_generation_prompt = true;
  // The prompt ends with the content of the last message, which must be the assistant's.
  bool continue_final_message = false;
  std::string bos_token = {};
  std::string eos_token = {};
  std::optional<CivilTime> now = std::nullopt;
};

// A message with plain text, for callers that have no JSON.
struct ChatMessage {
  std::string role;
  std::string content;
};
templates::Value MessagesValue(const std::vector<ChatMessage>& messages);

enum class ContentShape : std::uint8_t { kString, kParts, kUnknown };
enum class ArgumentsShape : std::uint8_t { kObject, kString, kUnknown };

// Threads: immutable; any number may render it at once.
class ChatTemplate {
 public:
  // Parses a template and finds out the shapes that it reads.
  // Errors: those of Template::Parse.
  static Result<ChatTemplate> FromSource(std::string_view source);

  // One of the built-in templates, for model files without their own. Chosen by name only.
  // Errors: kNotFound for an unknown name; the message lists the names.
  static Result<ChatTemplate> Builtin(std::string_view name);
  static std::vector<std::string_view> BuiltinNames();

  // The prompt for the conversation in exactly the shapes given, as the Transformers library
  // renders it: null fields of messages are dropped, reasoning_content is also there as thinking.
  // Errors: kInvalid with the template's own words where it refuses (RefusalWords gives them), for
  // messages that are no list of objects, and for continue_final_message with
  // add_generation_prompt, without a last message of the assistant, or where the template does
  // not show it; those of Template::Render.
  Result<std::string> RenderAsGiven(const ChatTemplateInputs& inputs,
                                    const TemplateLimits& limits) const;

  // The prompt for the conversation after adapting it to the template (rules above). For requests.
  // Errors: as RenderAsGiven, and kInvalid with the index of a message whose content or tool call
  // arguments break the rules.
  Result<std::string> RenderAdapted(const ChatTemplateInputs& inputs,
                                    const TemplateLimits& limits) const;

  ContentShape content_shape() const { return content_shape_; }
  ArgumentsShape arguments_shape() const { return arguments_shape_; }
  // Whether it tells the model of tools that it is given.
  bool knows_tools() const { return knows_tools_; }
  const std::string& source() const { return source_; }

 private:
  ChatTemplate(Template parsed, std::string source);
  ContentShape ProbeContent() const;
  ArgumentsShape ProbeArguments() const;
  bool ProbeTools() const;
  Result<std::string> RenderPlain(const ChatTemplateInputs& inputs, templates::Value messages,
                                  const TemplateLimits& limits) const;
  Result<std::string> RenderContinued(const ChatTemplateInputs& inputs,
                                      const std::vector<templates::Value>& messages,
                                      const TemplateLimits& limits) const;

  Template template_;
  std::string source_;
  ContentShape content_shape_ = ContentShape::kUnknown;
  ArgumentsShape arguments_shape_ = ArgumentsShape::kUnknown;
  bool knows_tools_ = false;
};

}  // namespace baton
