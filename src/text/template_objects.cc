#include "text/template_objects.h"

namespace baton::templates {

const Value* Scope::Find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent)
    for (const auto& [own_name, value] : scope->names)
      if (own_name == name) return &value;
  return nullptr;
}

void Scope::Set(std::string_view name, Value value) {
  for (auto& [own_name, own_value] : names) {
    if (own_name != name) continue;
    own_value = std::move(value);
    return;
  }
  names.emplace_back(name, std::move(value));
}

const Value* Namespace::Find(std::string_view name) const {
  for (const auto& [own_name, value] : attributes)
    if (own_name == name) return &value;
  return nullptr;
}

void Namespace::Set(std::string_view name, Value value) {
  for (auto& [own_name, own_value] : attributes) {
    if (own_name != name) continue;
    own_value = std::move(value);
    return;
  }
  attributes.emplace_back(std::string(name), std::move(value));
}

std::string LoopRepr(const LoopState& loop) {
  return "<LoopContext " + std::to_string(loop.index0 + 1) + "/" +
         std::to_string(loop.items.size()) + ">";
}

}  // namespace baton::templates
