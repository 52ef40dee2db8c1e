// The filters of the template language: `value | name(arguments)`.
#pragma once

#include <string_view>

#include "text/template_evaluation.h"
#include "text/template_objects.h"
#include "text/template_value.h"

namespace baton::templates {

using FilterFunction = Value (*)(Evaluation& evaluation, const Value& input,
                                 const Arguments& arguments);

struct FilterEntry {
  std::string_view name;
  FilterFunction function;
};

// The filter of that name, or null.
const FilterEntry* FindFilter(std::string_view name);

// Those on text, on numbers and JSON, and on sequences; each looks in its own table.
const FilterEntry* FindTextFilter(std::string_view name);
const FilterEntry* FindValueFilter(std::string_view name);
const FilterEntry* FindSequenceFilter(std::string_view name);
const FilterEntry* FindSelectionFilter(std::string_view name);

// What `attribute=` of a filter names: "a.b.0" walks item by item.
class AttributePath {
 public:
  // Errors: raises where the attribute is neither a string nor an integer.
  explicit AttributePath(const Value& attribute);
  // The attribute of the item; `fallback`, where not null, stands for undefined parts.
  Value Of(Evaluation& evaluation, const Value& item, const Value* fallback) const;

 private:
  std::vector<Value> parts_;
};

// The value lower-cased if it is a string, for orders that ignore case.
Value IgnoreCase(const Value& value);
// The value as a string that keeps its safe mark (soft_str).
Value SoftString(Evaluation& evaluation, const Value& value);

}  // namespace baton::templates
