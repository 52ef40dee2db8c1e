#include "text/chat_template_shapes.h"

#include <string>
#include <utility>

#include "text/template_failure.h"
#include "text/template_print.h"

namespace baton {
namespace {

using templates::Dict;
using templates::Kind;
using templates::Value;

std::string Here(std::size_t index) {
  return "messages[" + std::to_string(index) + "]";
}

Result<Value> AdaptedArguments(const Value& given, std::size_t index, ArgumentsShape shape) {
  Value arguments = given;
  if (given.is_string()) {
    if (given.string().empty()) {
      arguments = Value::Of(Dict());
    } else {
      Result<Value> parsed = TemplateValueFromJsonText(given.string());
      if (!parsed.has_value())
        return Fail(ErrorCode::kInvalid,
                    Here(index) + ": the arguments of a tool call are " + parsed.error().message);
      arguments = std::move(*parsed);
    }
  }
  if (!arguments.is(Kind::kDict))
    return Fail(ErrorCode::kInvalid,
                Here(index) + ": the arguments of a tool call must be a JSON object");
  if (shape != ArgumentsShape::kString) return arguments;
  return Value::String(templates::JsonText(arguments, templates::JsonStyle{}));
}

Result<Value> AdaptedToolCalls(const Value& calls, std::size_t index, ArgumentsShape shape) {
  std::vector<Value> out;
  for (const Value& call : calls.sequence().items) {
    if (!call.is(Kind::kDict)) {
      out.push_back(call);
      continue;
    }
    // Arguments lie in the call itself or, as a rule, in its "function".
    const Value* function = call.dict().Find("function");
    const bool nested = function != nullptr && function->is(Kind::kDict);
    const Value& holder = nested ? *function : call;
    const Value* given = holder.dict().Find("arguments");
    if (given == nullptr) {
      out.push_back(call);
      continue;
    }
    Result<Value> arguments = AdaptedArguments(*given, index, shape);
    if (!arguments.has_value()) return Forward(arguments);
    Value changed = WithField(holder, "arguments", std::move(*arguments));
    out.push_back(nested ? WithField(call, "function", std::move(changed)) : std::move(changed));
  }
  return Value::List(std::move(out));
}

}  // namespace

Value WithField(const Value& dict, std::string_view key, Value value) {
  Dict copy = dict.dict();
  copy.Set(key, std::move(value));
  return Value::Of(std::move(copy));
}

Result<std::vector<Value>> CheckedMessages(const Value& messages) {
  if (!messages.is_list_or_tuple())
    return Fail(ErrorCode::kInvalid, "messages must be a list of objects");
  std::vector<Value> out;
  for (const Value& message : messages.sequence().items) {
    const Value* role = message.is(Kind::kDict) ? message.dict().Find("role") : nullptr;
    if (role == nullptr || !role->is_string())
      return Fail(ErrorCode::kInvalid,
                  Here(out.size()) + " must be an object with a \"role\" that is a string");
    Dict kept;
    for (const auto& [key, value] : message.dict().entries())
      if (!value.is_none()) kept.Set(key, value);
    const Value* reasoning = kept.Find("reasoning_content");
    if (reasoning != nullptr) kept.Set("thinking", Value(*reasoning));
    out.push_back(Value::Of(std::move(kept)));
  }
  return out;
}

Result<std::string> ContentText(const Value& content) {
  if (content.is_undefined() || content.is_none()) return std::string();
  if (content.is_string()) return content.string();
  if (!content.is_list_or_tuple())
    return Fail(ErrorCode::kInvalid, "content must be a string or a list of parts");
  std::string text;
  for (const Value& part : content.sequence().items) {
    const Value* type = part.is(Kind::kDict) ? part.dict().Find("type") : nullptr;
    if (type == nullptr || !type->is_string())
      return Fail(ErrorCode::kInvalid, "each part of content must be an object with a \"type\"");
    if (type->string() != "text")
      return Fail(ErrorCode::kInvalid, "content parts of type \"" + type->string() +
                                           "\" are not supported, only \"text\"");
    const Value* part_text = part.dict().Find("text");
    if (part_text == nullptr || !part_text->is_string())
      return Fail(ErrorCode::kInvalid, "a content part of type \"text\" needs a string \"text\"");
    text += part_text->string();
  }
  return text;
}

Result<Value> AdaptedMessage(const Value& message, std::size_t index, const MessageShapes& shapes) {
  Value adapted = message;
  if (const Value* content = message.dict().Find("content"); content != nullptr) {
    Result<std::string> text = ContentText(*content);
    if (!text.has_value())
      return Fail(text.error().code, Here(index) + ": " + text.error().message);
    Value value = Value::String(std::move(*text));
    if (shapes.content == ContentShape::kParts) {
      Dict part;
      part.Set("type", Value::String("text"));
      part.Set("text", std::move(value));
      value = Value::List({Value::Of(std::move(part))});
    }
    adapted = WithField(adapted, "content", std::move(value));
  }
  const Value* calls = message.dict().Find("tool_calls");
  if (calls == nullptr) return adapted;
  if (!calls->is_list_or_tuple())
    return Fail(ErrorCode::kInvalid, Here(index) + ": tool_calls must be a list");
  Result<Value> changed = AdaptedToolCalls(*calls, index, shapes.arguments);
  if (!changed.has_value()) return Forward(changed);
  return WithField(adapted, "tool_calls", std::move(*changed));
}

}  // namespace baton
