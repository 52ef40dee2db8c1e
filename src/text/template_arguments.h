// Binds the arguments of a built-in filter, test, method or function to its parameters.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "text/template_objects.h"
#include "text/template_value.h"

namespace baton::templates {

// The arguments by parameter, with the conversions that built-ins need.
class BoundArguments {
 public:
  // Errors: raises for missing, surplus, doubled and unknown arguments.
  BoundArguments(const Arguments& arguments, std::string_view function,
                 std::initializer_list<std::string_view> parameters, std::size_t num_required);

  bool Has(std::size_t index) const { return values_[index] != nullptr; }
  // Requires: Has(index).
  const Value& operator[](std::size_t index) const { return *values_[index]; }
  bool Flag(std::size_t index, bool fallback) const;
  // Errors: raises for what is not an integer, or not within the range of int64.
  std::int64_t Integer64(std::size_t index, std::int64_t fallback) const;
  // Errors: raises for what is not a string.
  const std::string& Text(std::size_t index) const;
  // The text, or `fallback` where the argument is missing.
  std::string TextOr(std::size_t index, std::string fallback) const;

 private:
  std::string function_;
  std::vector<const Value*> values_;
};

// The value as an index or count. Errors: raises where it is no integer; clamps to int64.
std::int64_t IndexOf(const Value& value);

}  // namespace baton::templates
