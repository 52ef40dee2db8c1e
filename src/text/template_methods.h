// The methods of strings, lists and dicts that a template may call.
#pragma once

#include <cstdint>
#include <string_view>

#include "text/template_evaluation.h"
#include "text/template_objects.h"
#include "text/template_value.h"

namespace baton::templates {

enum class MethodAccess : std::uint8_t {
  kMissing,  // the type has no such method
  kAllowed,
  kUnsafe,  // it has, but it changes the object
};

MethodAccess FindMethod(const Value& object, std::string_view name);

// Calls a method that FindMethod allows. Errors: throws TemplateFailure as Python raises.
Value CallMethod(Evaluation& evaluation, const BoundMethod& method, const Arguments& arguments);

// Splits as str.split does: at `separator`, or at runs of white space where it is null; at most
// `max_splits` times (any number if negative), from the right if asked.
struct SplitOptions {
  const std::string* separator = nullptr;
  std::int64_t max_splits = -1;
  bool from_right = false;
};
std::vector<std::string> SplitText(Evaluation& evaluation, std::string_view text,
                                   const SplitOptions& options);
// str.splitlines().
std::vector<std::string> SplitLines(const Budget& budget, std::string_view text, bool keep_ends);
// str.replace(): at most `count` times, any number if negative.
struct Replacement {
  std::string_view from;
  std::string_view to;
  std::int64_t count = -1;
};
std::string ReplaceText(Evaluation& evaluation, std::string_view text,
                        const Replacement& replacement);
// str.capitalize().
std::string Capitalize(std::string_view text);
// str.center(width) and its kin: '<' left, '>' right, '^' centre as Python rounds it.
struct Justification {
  char side = '<';
  std::int64_t width = 0;
  std::string fill = " ";
};
std::string Justify(Evaluation& evaluation, std::string_view text, const Justification& how);

}  // namespace baton::templates
