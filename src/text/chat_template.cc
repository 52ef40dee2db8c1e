#include "text/chat_template.h"

#include <utility>

#include "text/chat_template_builtin.h"
#include "text/chat_template_shapes.h"
#include "text/template_failure.h"
#include "text/template_print.h"

namespace baton {
namespace {

using templates::Dict;
using templates::Value;

// A word that no template has and that survives changes of case and trimming.
constexpr std::string_view kProbe = "batonprobeword";
// Probes are small; a template that needs more than this for one is not worth waiting for.
constexpr TemplateLimits kProbeLimits = {.max_steps = 100'000,
                                         .max_output_bytes = 1UL << 20,
                                         .max_value_bytes = 1UL << 20,
                                         .max_work_bytes = 8UL << 20,
                                         .max_items = 10'000};
// The most candidates for a word that occurs nowhere in a conversation.
constexpr int kMaxMarkers = 1000;

Value Object(std::vector<std::pair<std::string_view, Value>> fields) {
  Dict dict;
  for (auto& [key, value] : fields) dict.Set(key, std::move(value));
  return Value::Of(std::move(dict));
}

Value Message(std::string_view role, Value content) {
  return Object({{"role", Value::String(std::string(role))}, {"content", std::move(content)}});
}

Value ToolCallMessage(Value arguments) {
  const Value function =
      Object({{"name", Value::String("batonfunction")}, {"arguments", std::move(arguments)}});
  // Some templates insist on an id of nine letters and digits.
  const Value call = Object({{"id", Value::String("batoncall")},
                             {"type", Value::String("function")},
                             {"function", function}});
  return Object({{"role", Value::String("assistant")},
                 {"content", Value::String("")},
                 {"tool_calls", Value::List({call})}});
}

// A function of one parameter, with all that templates look for.
Value Tool() {
  const Value parameter =
      Object({{"type", Value::String("string")}, {"description", Value::String("a word")}});
  const Value parameters = Object({{"type", Value::String("object")},
                                   {"properties", Object({{"word", parameter}})},
                                   {"required", Value::List({Value::String("word")})}});
  const Value function = Object({{"name", Value::String(std::string(kProbe))},
                                 {"description", Value::String("says a word")},
                                 {"parameters", parameters}});
  return Object({{"type", Value::String("function")}, {"function", function}});
}

bool Holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

Value MessagesValue(const std::vector<ChatMessage>& messages) {
  std::vector<Value> values;
  for (const ChatMessage& message : messages)
    values.push_back(Message(message.role, Value::String(message.content)));
  return Value::List(std::move(values));
}

ChatTemplate::ChatTemplate(Template parsed, std::string source)
    : template_(std::move(parsed)), source_(std::move(source)) {
  content_shape_ = ProbeContent();
  arguments_shape_ = ProbeArguments();
  knows_tools_ = ProbeTools();
}

Result<ChatTemplate> ChatTemplate::FromSource(std::string_view source) {
  Result<Template> parsed = Template::Parse(source);
  if (!parsed.has_value()) return Forward(parsed);
  return ChatTemplate(std::move(*parsed), std::string(source));
}

Result<ChatTemplate> ChatTemplate::Builtin(std::string_view name) {
  for (const BuiltinTemplate& builtin : kBuiltinTemplates)
    if (builtin.name == name) return FromSource(builtin.source);
  std::string names;
  for (const BuiltinTemplate& builtin : kBuiltinTemplates)
    names += (names.empty() ? "" : ", ") + std::string(builtin.name);
  return Fail(ErrorCode::kNotFound, "no built-in chat template is named '" + std::string(name) +
                                        "'; there are: " + names);
}

std::vector<std::string_view> ChatTemplate::BuiltinNames() {
  std::vector<std::string_view> names;
  for (const BuiltinTemplate& builtin : kBuiltinTemplates) names.push_back(builtin.name);
  return names;
}

Result<std::string> ChatTemplate::RenderPlain(const ChatTemplateInputs& inputs, Value messages,
                                              const TemplateLimits& limits) const {
  TemplateInputs variables;
  variables.variables = inputs.variables;
  const auto set = [&variables](std::string name, Value value) {
    variables.variables.emplace_back(std::move(name), std::move(value));
  };
  set("messages", std::move(messages));
  set("tools", inputs.tools);
  set("documents", inputs.documents);
  set("add_generation_prompt", Value::Bool(inputs.add_generation_prompt));
  set("bos_token", Value::String(inputs.bos_token));
  set("eos_token", Value::String(inputs.eos_token));
  variables.now = inputs.now;
  return template_.Render(variables, limits);
}

ContentShape ChatTemplate::ProbeContent() const {
  const Value text = Value::String(std::string(kProbe));
  const Value parts = Value::List({Object({{"type", Value::String("text")}, {"text", text}})});
  const auto shows = [&](const Value& content) {
    // Some templates want a system message first, others refuse one.
    const std::vector<std::vector<Value>> conversations = {
        {Message("user", content)}, {Message("system", content), Message("user", content)}};
    for (const std::vector<Value>& messages : conversations) {
      ChatTemplateInputs inputs;
      inputs.now = CivilTime{};
      const Result<std::string> out = RenderPlain(inputs, Value::List(messages), kProbeLimits);
      // A list that is printed as it is shows the name of its field, too.
      if (out.has_value() && Holds(*out, kProbe) && !Holds(*out, "'text'") &&
          !Holds(*out, "\"text\""))
        return true;
    }
    return false;
  };
  if (shows(text)) return ContentShape::kString;
  return shows(parts) ? ContentShape::kParts : ContentShape::kUnknown;
}

ArgumentsShape ChatTemplate::ProbeArguments() const {
  const Value object = Object({{"batonkey", Value::String(std::string(kProbe))}});
  const Value text = Value::String(templates::JsonText(object, templates::JsonStyle{}));
  const auto render = [&](const Value& arguments) -> std::string {
    ChatTemplateInputs inputs;
    inputs.add_generation_prompt = false;
    inputs.now = CivilTime{};
    Value content = Value::String("hello");
    if (content_shape_ == ContentShape::kParts)
      content = Value::List({Object({{"type", Value::String("text")}, {"text", content}})});
    const Value messages = Value::List({Message("user", content), ToolCallMessage(arguments)});
    return RenderPlain(inputs, messages, kProbeLimits).value_or(std::string());
  };
  // An object that is printed as it is shows Python's quotes; a string that is written as JSON is
  // quoted twice.
  const std::string with_object = render(object);
  if (Holds(with_object, "batonkey") && Holds(with_object, kProbe) &&
      !Holds(with_object, "'batonkey'"))
    return ArgumentsShape::kObject;
  const std::string with_text = render(text);
  if (Holds(with_text, "\"batonkey\"") && Holds(with_text, kProbe)) return ArgumentsShape::kString;
  return ArgumentsShape::kUnknown;
}

bool ChatTemplate::ProbeTools() const {
  Value content = Value::String("hello");
  if (content_shape_ == ContentShape::kParts)
    content = Value::List({Object({{"type", Value::String("text")}, {"text", content}})});
  // Some templates want a system message first, others refuse one, or show no tools beside it.
  const std::vector<std::vector<Value>> conversations = {
      {Message("user", content)}, {Message("system", content), Message("user", content)}};
  for (const std::vector<Value>& messages : conversations) {
    ChatTemplateInputs inputs;
    inputs.tools = Value::List({Tool()});
    inputs.now = CivilTime{};
    if (Holds(RenderPlain(inputs, Value::List(messages), kProbeLimits).value_or(std::string()),
              kProbe))
      return true;
  }
  return false;
}

Result<std::string> ChatTemplate::RenderAsGiven(const ChatTemplateInputs& inputs,
                                                const TemplateLimits& limits) const {
  Result<std::vector<Value>> messages = CheckedMessages(inputs.messages);
  if (!messages.has_value()) return Forward(messages);
  if (inputs.continue_final_message) return RenderContinued(inputs, *messages, limits);
  return RenderPlain(inputs, Value::List(std::move(*messages)), limits);
}

Result<std::string> ChatTemplate::RenderAdapted(const ChatTemplateInputs& inputs,
                                                const TemplateLimits& limits) const {
  Result<std::vector<Value>> messages = CheckedMessages(inputs.messages);
  if (!messages.has_value()) return Forward(messages);
  const MessageShapes shapes{content_shape_, arguments_shape_};
  for (std::size_t i = 0; i < messages->size(); ++i) {
    Result<Value> adapted = AdaptedMessage((*messages)[i], i, shapes);
    if (!adapted.has_value()) return Forward(adapted);
    (*messages)[i] = std::move(*adapted);
  }
  if (inputs.continue_final_message) return RenderContinued(inputs, *messages, limits);
  return RenderPlain(inputs, Value::List(std::move(*messages)), limits);
}

// Renders with a marker in place of the last content and cuts there: whatever the template does to
// a content (trimming, for one) happens to the marker, and no earlier text can be mistaken for it.
Result<std::string> ChatTemplate::RenderContinued(const ChatTemplateInputs& inputs,
                                                  const std::vector<Value>& messages,
                                                  const TemplateLimits& limits) const {
  if (inputs.add_generation_prompt)
    return Fail(ErrorCode::kInvalid,
                "a prompt either continues the last message or starts a new one: "
                "continue_final_message and add_generation_prompt exclude each other");
  const Value* role = messages.empty() ? nullptr : messages.back().dict().Find("role");
  if (role == nullptr || role->string() != "assistant")
    return Fail(ErrorCode::kInvalid,
                "only a last message of the role \"assistant\" can be continued");
  const Value* content = messages.back().dict().Find("content");
  Result<std::string> text = ContentText(content == nullptr ? Value::None() : *content);
  if (!text.has_value()) return Forward(text);

  const std::string all = templates::Repr(Value::List(messages)) + templates::Repr(inputs.tools) +
                          templates::Repr(inputs.documents) + source_;
  std::string marker;
  for (int i = 0; i < kMaxMarkers; ++i) {
    marker = "batoncontinueshere" + std::to_string(i) + "x";
    if (!Holds(all, marker)) break;
  }
  Value marked = Value::String(marker);
  if (content != nullptr && content->is_list_or_tuple())
    marked = Value::List({Object({{"type", Value::String("text")}, {"text", marked}})});
  std::vector<Value> changed = messages;
  changed.back() = WithField(changed.back(), "content", std::move(marked));
  Result<std::string> rendered = RenderPlain(inputs, Value::List(std::move(changed)), limits);
  if (!rendered.has_value()) return rendered;
  const std::size_t cut = rendered->rfind(marker);
  if (cut == std::string::npos)
    return Fail(ErrorCode::kInvalid,
                "the last message cannot be continued: the chat template does not show it");
  return rendered->substr(0, cut) + *text;
}

}  // namespace baton
