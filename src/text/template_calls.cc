// The part of Evaluation that calls: macros, recursive loops, methods and functions.
#include <algorithm>
#include <utility>

#include "text/template_evaluation.h"
#include "text/template_functions.h"
#include "text/template_methods.h"

namespace baton::templates {

Value Evaluation::Call(const Value& callee, const Arguments& arguments) {
  budget_.ChargeSteps(1);
  switch (callee.kind()) {
    case Kind::kMacro:
      return CallMacro(*callee.macro(), arguments);
    case Kind::kFunction:
      return CallFunction(*this, callee.function_id(), arguments);
    case Kind::kMethod:
      return CallMethod(*this, callee.method(), arguments);
    case Kind::kLoop:
      return CallLoop(callee.loop(), arguments);
    case Kind::kUndefined:
      Raise(callee.undefined_message());
    default:
      Raise("'" + std::string(TypeName(callee)) + "' object is not callable");
  }
}

void Evaluation::BindParameters(const Macro& macro, const Arguments& arguments, Scope* scope) {
  const MacroDefinition& definition = *macro.definition;
  const std::size_t count = definition.parameters.size();
  const std::size_t given = std::min(count, arguments.positional.size());
  if (arguments.positional.size() > count && !definition.uses_varargs)
    Raise("macro '" + definition.name + "' takes not more than " + std::to_string(count) +
          " argument(s)");
  std::vector<bool> taken(arguments.named.size(), false);
  for (std::size_t i = 0; i < count; ++i) {
    const MacroDefinition::Parameter& parameter = definition.parameters[i];
    const Value* value = i < given ? &arguments.positional[i] : nullptr;
    for (std::size_t k = 0; value == nullptr && k < arguments.named.size(); ++k) {
      if (arguments.named[k].first != parameter.name) continue;
      value = &arguments.named[k].second;
      taken[k] = true;
    }
    if (value != nullptr) {
      scope->Set(parameter.name, *value);
    } else if (parameter.default_value != nullptr) {
      scope->Set(parameter.name, Evaluate(*parameter.default_value, scope));
    } else {
      scope->Set(parameter.name,
                 Value::Undefined("parameter '" + parameter.name + "' was not provided"));
    }
  }
  Dict surplus;
  Value caller = Value::Undefined("No caller defined");
  for (std::size_t k = 0; k < arguments.named.size(); ++k) {
    const auto& [name, value] = arguments.named[k];
    if (taken[k]) continue;
    if (name == "caller" && definition.uses_caller) {
      caller = value;
    } else if (definition.uses_kwargs) {
      surplus.Set(name, value);
    } else {
      Raise("macro '" + definition.name + "' takes no keyword argument '" + name + "'");
    }
  }
  if (definition.uses_caller) {
    const bool is_parameter =
        std::any_of(definition.parameters.begin(), definition.parameters.end(),
                    [](const MacroDefinition::Parameter& p) { return p.name == "caller"; });
    if (!is_parameter) scope->Set("caller", caller);
  }
  if (definition.uses_kwargs) scope->Set("kwargs", Value::Of(std::move(surplus)));
  if (definition.uses_varargs)
    scope->Set("varargs", Value::Tuple(std::vector<Value>(
                              arguments.positional.begin() + static_cast<std::ptrdiff_t>(given),
                              arguments.positional.end())));
}

Value Evaluation::CallMacro(const Macro& macro, const Arguments& arguments) {
  Scope stack_scope{.parent = macro.scope};
  Scope* scope = &stack_scope;
  if (macro.definition->holds_closure) {
    budget_.ChargeSteps(20);
    scopes_.push_back(std::make_unique<Scope>(Scope{.parent = macro.scope}));
    scope = scopes_.back().get();
  }
  BindParameters(macro, arguments, scope);
  std::string text;
  RunBody(macro.definition->body, scope, &text);
  budget_.ChargeBytes(text.size());
  return Value::String(std::move(text));
}

Value Evaluation::CallLoop(LoopState* loop, const Arguments& arguments) {
  if (!loop->stmt->recursive)
    Raise("the loop must have the 'recursive' marker to be called recursively");
  if (!loop->active) Raise("the loop has ended");
  if (arguments.positional.size() != 1 || !arguments.named.empty())
    Raise("loop() takes one argument");
  std::string text;
  RunLoop(*loop->stmt, arguments.positional[0], loop->outer, loop->depth0 + 1, &text);
  budget_.ChargeBytes(text.size());
  return Value::String(std::move(text));
}

}  // namespace baton::templates
