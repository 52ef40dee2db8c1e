#include "text/template_arguments.h"

#include <limits>

#include "text/template_failure.h"

namespace baton::templates {

BoundArguments::BoundArguments(const Arguments& arguments, std::string_view function,
                               std::initializer_list<std::string_view> parameters,
                               std::size_t num_required)
    : function_(function), values_(parameters.size(), nullptr) {
  if (arguments.positional.size() > parameters.size())
    Raise(function_ + "() takes at most " + std::to_string(parameters.size()) + " arguments (" +
          std::to_string(arguments.positional.size()) + " given)");
  for (std::size_t i = 0; i < arguments.positional.size(); ++i)
    values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    std::size_t index = 0;
    for (const std::string_view parameter : parameters) {
      if (parameter == name) break;
      ++index;
    }
    if (index == parameters.size())
      Raise(function_ + "() got an unexpected keyword argument '" + name + "'");
    if (values_[index] != nullptr)
      Raise(function_ + "() got multiple values for argument '" + name + "'");
    values_[index] = &value;
  }
  for (std::size_t i = 0; i < num_required; ++i)
    if (values_[i] == nullptr)
      Raise(function_ + "() misses its argument '" + std::string(parameters.begin()[i]) + "'");
}

bool BoundArguments::Flag(std::size_t index, bool fallback) const {
  return values_[index] == nullptr ? fallback : Truth(*values_[index]);
}

std::int64_t BoundArguments::Integer64(std::size_t index, std::int64_t fallback) const {
  return values_[index] == nullptr ? fallback : IndexOf(*values_[index]);
}

const std::string& BoundArguments::Text(std::size_t index) const {
  const Value& value = *values_[index];
  if (value.is_undefined()) Raise(value.undefined_message());
  if (!value.is_string())
    Raise(function_ + "() needs a string, not '" + std::string(TypeName(value)) + "'");
  return value.string();
}

std::string BoundArguments::TextOr(std::size_t index, std::string fallback) const {
  return values_[index] == nullptr ? std::move(fallback) : Text(index);
}

std::int64_t IndexOf(const Value& value) {
  if (value.is_undefined()) Raise(value.undefined_message());
  if (!value.is_integral())
    Raise("'" + std::string(TypeName(value)) + "' object cannot be interpreted as an integer");
  const Integer number = value.integer();
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  if (number > kMax) return kMax;
  if (number < -kMax) return -kMax;
  return static_cast<std::int64_t>(number);
}

}  // namespace baton::templates
