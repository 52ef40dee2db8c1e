// Python's operators on template values. All may throw TemplateFailure.
#pragma once

#include <string>
#include <string_view>

#include "text/template_ast.h"
#include "text/template_evaluation.h"
#include "text/template_value.h"

namespace baton::templates {

// a op b for the operators of ExprKind::kBinary.
Value Binary(Evaluation& evaluation, char op, const Value& a, const Value& b);
// Unary + and -.
Value Negate(char op, const Value& operand);
bool Compare(Evaluation& evaluation, CompareOp op, const Value& a, const Value& b);
// `needle in haystack`.
bool Contains(Evaluation& evaluation, const Value& haystack, const Value& needle);

// Each a number or None.
struct SliceBounds {
  Value start;
  Value stop;
  Value step;
};
// object[start:stop:step].
Value Slice(Evaluation& evaluation, const Value& object, const SliceBounds& bounds);

// The text with & < > ' " as HTML entities.
std::string HtmlEscape(std::string_view text);
// The value's text, escaped unless it is marked safe.
std::string HtmlEscape(Evaluation& evaluation, const Value& value);

}  // namespace baton::templates
