// Filters that apply another filter or a test to each item: map, select, reject and their kin.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "text/template_arguments.h"
#include "text/template_failure.h"
#include "text/template_filters.h"
#include "text/template_predicates.h"
#include "text/template_table.h"

namespace baton::templates {
namespace {

const Value* Named(const Arguments& arguments, std::string_view name) {
  for (const auto& [own_name, value] : arguments.named)
    if (own_name == name) return &value;
  return nullptr;
}

Value MapAttribute(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  for (const auto& [name, value] : arguments.named)
    if (name != "attribute" && name != "default")
      Raise("Unexpected keyword argument '" + name + "'");
  const AttributePath path(*Named(arguments, "attribute"));
  const Value* fallback = Named(arguments, "default");
  if (fallback != nullptr && fallback->is_none()) fallback = nullptr;
  std::vector<Value> out;
  for (const Value& item : evaluation.Items(input))
    out.push_back(path.Of(evaluation, item, fallback));
  return Value::Iterator(std::move(out));
}

Value Map(Evaluation& evaluation, const Value& input, const Arguments& arguments) {
  if (!Truth(input)) return Value::Iterator({});
  if (arguments.positional.empty()) {
    if (Named(arguments, "attribute") == nullptr) Raise("map requires a filter argument");
    return MapAttribute(evaluation, input, arguments);
  }
  const Value& name = arguments.positional[0];
  const FilterEntry* filter = name.is_string() ? FindFilter(name.string()) : nullptr;
  if (filter == nullptr) Raise("map: unknown filter");
  const Arguments passed{{arguments.positional.begin() + 1, arguments.positional.end()},
                         arguments.named};
  std::vector<Value> out;
  for (const Value& item : evaluation.Items(input)) {
    evaluation.budget().ChargeSteps(1);
    out.push_back(filter->function(evaluation, item, passed));
  }
  return Value::Iterator(std::move(out));
}

struct Selection {
  bool by_attribute;
  bool keep;
};

Value Select(Evaluation& evaluation, const Value& input, const Arguments& arguments,
             Selection selection) {
  if (!Truth(input)) return Value::Iterator({});
  std::size_t used = 0;
  std::optional<AttributePath> path;
  if (selection.by_attribute) {
    if (arguments.positional.empty()) Raise("Missing parameter for attribute name");
    path.emplace(arguments.positional[used++]);
  }
  const PredicateEntry* test = nullptr;
  if (arguments.positional.size() > used) {
    const Value& name = arguments.positional[used++];
    test = name.is_string() ? FindPredicate(name.string()) : nullptr;
    if (test == nullptr) Raise("unknown test");
  }
  const Arguments passed{{arguments.positional.begin() + static_cast<std::ptrdiff_t>(used),
                          arguments.positional.end()},
                         arguments.named};
  std::vector<Value> out;
  for (const Value& item : evaluation.Items(input)) {
    evaluation.budget().ChargeSteps(1);
    const Value subject = path.has_value() ? path->Of(evaluation, item, nullptr) : item;
    const bool holds =
        test == nullptr ? Truth(subject) : test->function(evaluation, subject, passed);
    if (holds == selection.keep) out.push_back(item);
  }
  return Value::Iterator(std::move(out));
}

Value SelectItems(Evaluation& e, const Value& v, const Arguments& a) {
  return Select(e, v, a, Selection{.by_attribute = false, .keep = true});
}
Value RejectItems(Evaluation& e, const Value& v, const Arguments& a) {
  return Select(e, v, a, Selection{.by_attribute = false, .keep = false});
}
Value SelectAttr(Evaluation& e, const Value& v, const Arguments& a) {
  return Select(e, v, a, Selection{.by_attribute = true, .keep = true});
}
Value RejectAttr(Evaluation& e, const Value& v, const Arguments& a) {
  return Select(e, v, a, Selection{.by_attribute = true, .keep = false});
}

constexpr std::array<FilterEntry, 5> kFilters = {{
    {"map", Map},
    {"select", SelectItems},
    {"reject", RejectItems},
    {"selectattr", SelectAttr},
    {"rejectattr", RejectAttr},
}};

}  // namespace

const FilterEntry* FindSelectionFilter(std::string_view name) {
  return FindByName(kFilters, name);
}

}  // namespace baton::templates
