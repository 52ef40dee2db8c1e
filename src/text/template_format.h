// Python's two ways to format: "..." % values, and "...".format(values).
#pragma once

#include "text/template_evaluation.h"
#include "text/template_objects.h"
#include "text/template_value.h"

namespace baton::templates {

// format % values. Errors: throws TemplateFailure as Python raises.
Value PercentFormat(Evaluation& evaluation, const Value& format, const Value& values);
// format.format(arguments). Errors: throws TemplateFailure as Python raises.
Value BraceFormat(Evaluation& evaluation, const Value& format, const Arguments& arguments);

}  // namespace baton::templates
