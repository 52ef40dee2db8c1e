// The tests of the template language: `value is name(arguments)`.
#pragma once

#include <string_view>

#include "text/template_evaluation.h"
#include "text/template_objects.h"
#include "text/template_value.h"

namespace baton::templates {

struct PredicateEntry {
  std::string_view name;
  bool (*function)(Evaluation& evaluation, const Value& subject, const Arguments& arguments);
};

// The test of that name, or null.
const PredicateEntry* FindPredicate(std::string_view name);

}  // namespace baton::templates
