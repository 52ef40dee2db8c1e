// The methods of dicts, lists and loops; which of them a template may call; strings have their own
// file.
#include "text/template_methods.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/template_arguments.h"
#include "text/template_failure.h"
#include "text/template_functions.h"
#include "text/template_print.h"
#include "text/template_string_methods.h"

namespace baton::templates {
namespace {

constexpr std::array<std::string_view, 5> kDictMethods = {"get", "items", "keys", "values", "copy"};
constexpr std::array<std::string_view, 6> kDictChanges = {"clear",      "pop",    "popitem",
                                                          "setdefault", "update", "fromkeys"};
constexpr std::array<std::string_view, 3> kListMethods = {"copy", "count", "index"};
constexpr std::array<std::string_view, 8> kListChanges = {"append", "clear",  "extend",  "insert",
                                                          "pop",    "remove", "reverse", "sort"};
constexpr std::array<std::string_view, 2> kLoopMethods = {"cycle", "changed"};

template <std::size_t N>
bool IsIn(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Value DictView(const Dict& dict, Flavor flavor) {
  std::vector<Value> items;
  items.reserve(dict.size());
  for (const auto& [key, value] : dict.entries())
    items.push_back(flavor == Flavor::kKeys     ? key
                    : flavor == Flavor::kValues ? value
                                                : Value::Tuple({key, value}));
  return Value::Of(Sequence{.flavor = flavor, .items = std::move(items)});
}

Value CallDictMethod(Evaluation& evaluation, const BoundMethod& method,
                     const Arguments& arguments) {
  const Dict& dict = method.self.dict();
  if (method.name == "get") {
    if (!arguments.named.empty()) Raise("dict.get() takes no keyword arguments");
    const BoundArguments bound(arguments, "get", {"key", "default"}, 1);
    const Value* value = dict.Find(bound[0]);
    if (value != nullptr) return *value;
    return bound.Has(1) ? bound[1] : Value::None();
  }
  const BoundArguments bound(arguments, method.name, {}, 0);
  evaluation.budget().ChargeItems(dict.size());
  if (method.name == "copy") return method.self;
  return DictView(dict, method.name == "items"  ? Flavor::kItems
                        : method.name == "keys" ? Flavor::kKeys
                                                : Flavor::kValues);
}

Value CallListMethod(Evaluation& evaluation, const BoundMethod& method,
                     const Arguments& arguments) {
  const std::vector<Value>& items = method.self.sequence().items;
  evaluation.budget().ChargeSteps(method.self.weight() / 64);
  if (method.name == "copy") {
    const BoundArguments bound(arguments, "copy", {}, 0);
    return method.self;
  }
  if (method.name == "count") {
    const BoundArguments bound(arguments, "count", {"value"}, 1);
    return Value::Int(std::count_if(items.begin(), items.end(),
                                    [&](const Value& item) { return Equal(item, bound[0]); }));
  }
  const BoundArguments bound(arguments, "index", {"value", "start", "stop"}, 1);
  const auto size = static_cast<std::int64_t>(items.size());
  const auto clamp = [size](std::int64_t at) {
    return std::clamp(at < 0 ? at + size : at, std::int64_t{0}, size);
  };
  const std::int64_t stop = clamp(bound.Integer64(2, size));
  for (std::int64_t i = clamp(bound.Integer64(1, 0)); i < stop; ++i)
    if (Equal(items[static_cast<std::size_t>(i)], bound[0])) return Value::Int(i);
  Raise("the value is not in the list");
}

Value CallLoopMethod(const BoundMethod& method, const Arguments& arguments) {
  LoopState* loop = method.self.loop();
  if (method.name == "cycle") {
    if (arguments.positional.empty()) Raise("no items for cycling given");
    return arguments.positional[loop->index0 % arguments.positional.size()];
  }
  Value value = Value::Tuple(arguments.positional);
  if (loop->has_changed_value && Equal(loop->changed_value, value)) return Value::Bool(false);
  loop->has_changed_value = true;
  loop->changed_value = std::move(value);
  return Value::Bool(true);
}

}  // namespace

MethodAccess FindMethod(const Value& object, std::string_view name) {
  const auto access = [](bool allowed, bool unsafe) {
    return allowed  ? MethodAccess::kAllowed
           : unsafe ? MethodAccess::kUnsafe
                    : MethodAccess::kMissing;
  };
  switch (object.kind()) {
    case Kind::kString:
      return access(IsStringMethod(name), false);
    case Kind::kDict:
      return access(IsIn(kDictMethods, name), IsIn(kDictChanges, name));
    case Kind::kSequence:
      if (object.sequence().flavor == Flavor::kList)
        return access(IsIn(kListMethods, name), IsIn(kListChanges, name));
      if (object.sequence().flavor == Flavor::kTuple || object.sequence().flavor == Flavor::kRange)
        return access(name == "count" || name == "index", false);
      return MethodAccess::kMissing;
    case Kind::kLoop:
      return access(IsIn(kLoopMethods, name), false);
    default:
      return MethodAccess::kMissing;
  }
}

Value CallMethod(Evaluation& evaluation, const BoundMethod& method, const Arguments& arguments) {
  switch (method.self.kind()) {
    case Kind::kString:
      return CallStringMethod(evaluation, method, arguments);
    case Kind::kDict:
      return CallDictMethod(evaluation, method, arguments);
    case Kind::kLoop:
      return CallLoopMethod(method, arguments);
    default:
      return CallListMethod(evaluation, method, arguments);
  }
}

}  // namespace baton::templates
