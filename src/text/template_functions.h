// The global functions of the template language.
#pragma once

#include <optional>
#include <string_view>

#include "text/template_evaluation.h"
#include "text/template_objects.h"
#include "text/template_value.h"

namespace baton::templates {

// range, dict, namespace, raise_exception, strftime_now; nothing for other names.
std::optional<Value> GlobalFunction(std::string_view name);

// Errors: throws TemplateFailure as the function raises.
Value CallFunction(Evaluation& evaluation, int function_id, const Arguments& arguments);

}  // namespace baton::templates
