// The methods of strings, by Python's names.
#pragma once

#include <string_view>

#include "text/template_evaluation.h"
#include "text/template_objects.h"
#include "text/template_value.h"

namespace baton::templates {

bool IsStringMethod(std::string_view name);

// Requires: method.self is a string and IsStringMethod(method.name).
// Errors: throws TemplateFailure as Python raises.
Value CallStringMethod(Evaluation& evaluation, const BoundMethod& method,
                       const Arguments& arguments);

}  // namespace baton::templates
