// object.name and object[key]: data first or methods first, as Jinja's sandbox has it, and nothing
// of the host language's object internals.
#include <algorithm>
#include <array>
#include <string>

#include "text/template_arguments.h"
#include "text/template_evaluation.h"
#include "text/template_methods.h"
#include "text/template_unicode.h"

namespace baton::templates {
namespace {

Value Missing(const Value& object, const std::string& what, bool is_element) {
  const std::string type(TypeName(object));
  const std::string owner = object.is_none() ? "None" : type + " object";
  if (is_element) return Value::Undefined(owner + " has no element " + what);
  return Value::Undefined("'" + owner + "' has no attribute '" + what + "'");
}

// What Jinja's sandbox does with names that lead to internals: undefined, and an error on use.
Value Unsafe(const Value& object, std::string_view name) {
  return Value::Undefined("access to attribute '" + std::string(name) + "' of '" +
                          std::string(TypeName(object)) + "' object is unsafe");
}

bool IsInternalName(std::string_view name) {
  return name.size() > 4 && name.starts_with("__") && name.ends_with("__");
}

Value LoopAttribute(const LoopState& loop, std::string_view name) {
  const auto integer = [](std::size_t value) { return Value::Int(static_cast<Integer>(value)); };
  const std::size_t length = loop.items.size();
  if (name == "index") return integer(loop.index0 + 1);
  if (name == "index0") return integer(loop.index0);
  if (name == "length") return integer(length);
  if (name == "revindex") return integer(length - std::min(length, loop.index0));
  if (name == "revindex0") return integer(length - std::min(length, loop.index0 + 1));
  if (name == "first") return Value::Bool(loop.index0 == 0);
  if (name == "last") return Value::Bool(loop.index0 + 1 >= length);
  if (name == "depth") return integer(loop.depth0 + 1);
  if (name == "depth0") return integer(loop.depth0);
  if (name == "previtem")
    return loop.index0 > 0 && loop.index0 <= length ? loop.items[loop.index0 - 1]
                                                    : Value::Undefined("there is no previous item");
  if (name == "nextitem")
    return loop.index0 + 1 < length ? loop.items[loop.index0 + 1]
                                    : Value::Undefined("there is no next item");
  return Value::Undefined("'LoopContext object' has no attribute '" + std::string(name) + "'");
}

// The method or attribute that Python's type has under this name, or nothing.
std::optional<Value> OwnAttribute(const Value& object, std::string_view name) {
  switch (FindMethod(object, name)) {
    case MethodAccess::kAllowed:
      return Value::Method(object, std::string(name));
    case MethodAccess::kUnsafe:
      return Unsafe(object, name);
    case MethodAccess::kMissing:
      break;
  }
  if (object.is(Kind::kNamespace)) {
    const Value* value = object.name_space()->Find(name);
    if (value != nullptr) return *value;
  }
  if (object.is(Kind::kLoop)) return LoopAttribute(*object.loop(), name);
  if (object.is(Kind::kMacro) && name == "name")
    return Value::String(object.macro()->definition->name);
  if (object.is(Kind::kSequence) && object.sequence().label == "group" &&
      (name == "grouper" || name == "list"))
    return object.sequence().items[name == "grouper" ? 0 : 1];
  if (IsInternalName(name)) return Unsafe(object, name);
  return std::nullopt;
}

}  // namespace

Value Evaluation::Attribute(const Value& object, std::string_view name) {
  if (object.is_undefined()) Raise(object.undefined_message());
  if (std::optional<Value> own = OwnAttribute(object, name); own.has_value()) return *own;
  if (object.is(Kind::kDict)) {
    const Value* value = object.dict().Find(name);
    if (value != nullptr) return *value;
  }
  return Missing(object, std::string(name), /*is_element=*/false);
}

Value Evaluation::Item(const Value& object, const Value& key) {
  if (object.is_undefined()) Raise(object.undefined_message());
  const bool is_indexed =
      object.is_string() || object.is_list_or_tuple() ||
      (object.is(Kind::kSequence) && object.sequence().flavor == Flavor::kRange);
  if (is_indexed && key.is_integral()) {
    std::int64_t index = IndexOf(key);
    std::vector<std::string_view> characters;
    if (object.is_string()) {
      budget_.ChargeBytes(object.string().size());
      characters = Characters(object.string());
    }
    const auto length = static_cast<std::int64_t>(
        object.is_string() ? characters.size() : object.sequence().items.size());
    if (index < 0) index += length;
    if (index < 0 || index >= length)
      return Missing(object, std::to_string(IndexOf(key)), /*is_element=*/true);
    const auto at = static_cast<std::size_t>(index);
    return object.is_string() ? Value::StringLike(object, std::string(characters[at]))
                              : object.sequence().items[at];
  }
  if (object.is(Kind::kDict)) {
    const bool hashable = !key.is(Kind::kDict) &&
                          (!key.is(Kind::kSequence) || key.sequence().flavor == Flavor::kTuple);
    const Value* value = hashable ? object.dict().Find(key) : nullptr;
    if (value != nullptr) return *value;
  }
  if (key.is_string()) {
    if (std::optional<Value> own = OwnAttribute(object, key.string()); own.has_value()) return *own;
    return Missing(object, key.string(), /*is_element=*/false);
  }
  return Missing(object, std::string(TypeName(key)), /*is_element=*/true);
}

}  // namespace baton::templates
