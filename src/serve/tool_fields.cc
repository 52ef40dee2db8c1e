#include "serve/tool_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

bool IsName(std::string_view name) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  return !name.empty() && name.size() <= ChatTools::kMaxNameBytes &&
         name.find_first_not_of(kLetters) == name.npos;
}

tl::unexpected<ApiError> NotAnObject(const Json& value, const std::string& name) {
  return BadField(name, fmt::format("'{}' must be an object, not {}", name, JsonTypeName(value)));
}

// {"type": "function", "function": {...}}: the inner object.
ApiResult<const Json*> FunctionOf(const Json& value, const std::string& name, bool needs_type) {
  if (!value.is_object()) return NotAnObject(value, name);
  const JsonFields fields(value, name);
  const auto type = fields.Text("type");
  if (!type) return ForwardApi(type);
  if (type->value_or(needs_type ? "" : "function") != "function") {
    return BadField(fields.NameOf("type"),
                    fmt::format("'{}' must be \"function\"", fields.NameOf("type")));
  }
  const auto function = fields.Object("function");
  if (!function) return ForwardApi(function);
  if (*function == nullptr) {
    return BadField(fields.NameOf("function"),
                    fmt::format("'{}' is missing", fields.NameOf("function")));
  }
  return *function;
}

ApiResult<std::string> NameOfTool(const Json& tool, const std::string& name) {
  const auto function = FunctionOf(tool, name, /*needs_type=*/true);
  if (!function) return ForwardApi(function);
  const JsonFields fields(**function, name + ".function");
  const auto given = fields.Text("name");
  if (!given) return ForwardApi(given);
  if (!IsName(given->value_or(""))) {
    return BadField(fields.NameOf("name"),
                    fmt::format("'{}' must have 1 to {} letters, digits, '_', '-' or '.'",
                                fields.NameOf("name"), ChatTools::kMaxNameBytes));
  }
  if (auto text = fields.Text("description"); !text) return ForwardApi(text);
  if (auto object = fields.Object("parameters"); !object) return ForwardApi(object);
  return **given;
}

// Whether the model may call.
ApiResult<bool> ReadChoice(const JsonFields& fields) {
  const Json* choice = fields.Find("tool_choice");
  if (choice == nullptr || *choice == "auto") return true;
  if (*choice == "none") return false;
  if (*choice == "required" || choice->is_object()) {
    return BadField("tool_choice",
                    "'tool_choice' can be \"auto\" or \"none\": answers are not held to a form, so "
                    "that no call can be promised; with \"auto\" a message may ask for one");
  }
  const std::string must = "'tool_choice' must be \"auto\" or \"none\"";
  if (!choice->is_string()) {
    return BadField("tool_choice", fmt::format("{}, not {}", must, JsonTypeName(*choice)));
  }
  const auto& word = choice->get_ref<const std::string&>();
  constexpr size_t kMaxWordBytes = 40;
  if (word.size() > kMaxWordBytes) return BadField("tool_choice", must);
  return BadField("tool_choice", fmt::format("{}, not \"{}\"", must, word));
}

}  // namespace

ApiResult<ChatTools> ReadTools(const JsonFields& fields) {
  ChatTools tools;
  const auto may_call = ReadChoice(fields);
  if (!may_call) return ForwardApi(may_call);
  const auto parallel = fields.Bool("parallel_tool_calls");
  if (!parallel) return ForwardApi(parallel);
  const Json* list = fields.Find("tools");
  if (list == nullptr) return tools;
  if (!list->is_array()) {
    return BadField("tools", fmt::format("'tools' must be a list, not {}", JsonTypeName(*list)));
  }
  if (list->size() > ChatTools::kMaxTools) {
    return BadField("tools", fmt::format("'tools' has {} entries; the limit is {}", list->size(),
                                         ChatTools::kMaxTools));
  }
  for (size_t i = 0; i < list->size(); ++i) {
    auto name = NameOfTool((*list)[i], fmt::format("tools[{}]", i));
    if (!name) return ForwardApi(name);
    if (std::find(tools.names.begin(), tools.names.end(), *name) != tools.names.end()) {
      return BadField("tools", fmt::format("'tools' has the name '{}' twice", *name));
    }
    tools.names.push_back(*std::move(name));
  }
  if (tools.names.empty() || !*may_call) return ChatTools();
  if (!parallel->value_or(true)) {
    return BadField("parallel_tool_calls",
                    "'parallel_tool_calls': false is not supported: the model makes the calls that "
                    "it makes");
  }
  tools.list = *list;
  return tools;
}

ApiResult<> CheckToolCalls(const Json& calls, const std::string& name) {
  if (!calls.is_array()) {
    return BadField(name, fmt::format("'{}' must be a list, not {}", name, JsonTypeName(calls)));
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string call_name = fmt::format("{}[{}]", name, i);
    const auto function = FunctionOf(calls[i], call_name, /*needs_type=*/false);
    if (!function) return ForwardApi(function);
    const JsonFields fields(**function, call_name + ".function");
    const auto given = fields.Text("name");
    if (!given) return ForwardApi(given);
    if (!*given) {
      return BadField(fields.NameOf("name"), fmt::format("'{}' is missing", fields.NameOf("name")));
    }
    const Json* arguments = fields.Find("arguments");
    if (arguments != nullptr && !arguments->is_string() && !arguments->is_object()) {
      return BadField(fields.NameOf("arguments"),
                      fmt::format("'{}' must be JSON in a string, not {}",
                                  fields.NameOf("arguments"), JsonTypeName(*arguments)));
    }
  }
  return {};
}

}  // namespace baton
