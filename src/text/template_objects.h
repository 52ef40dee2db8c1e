// The objects of one render that change while it runs. Owned by the Evaluation; values name them
// by plain pointers.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template_ast.h"
#include "text/template_value.h"

namespace baton::templates {

// The variables of one block of statements; names live in the tree or in the inputs.
struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<std::string_view, Value>> names = {};

  // The value of the name here or further out, or null.
  const Value* Find(std::string_view name) const;
  // Sets the name in this scope.
  void Set(std::string_view name, Value value);
};

// What namespace() makes: the one object whose attributes a template may set.
struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;

  const Value* Find(std::string_view name) const;
  void Set(std::string_view name, Value value);
};

// A macro, or the body of a call block, together with the scope it was defined in.
struct Macro {
  const MacroDefinition* definition = nullptr;
  Scope* scope = nullptr;
};

// The `loop` of a for statement.
struct LoopState {
  const Stmt* stmt = nullptr;
  Scope* outer = nullptr;  // where the for statement stands; valid while `active`
  std::vector<Value> items = {};
  std::size_t index0 = 0;
  std::size_t depth0 = 0;
  bool active = true;
  bool has_changed_value = false;
  Value changed_value = {};
};

std::string LoopRepr(const LoopState& loop);

// What a call passes, evaluated.
struct Arguments {
  std::vector<Value> positional = {};
  std::vector<std::pair<std::string, Value>> named = {};
};

}  // namespace baton::templates
