// What messages call an option and its value.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/option_set.h"

namespace baton {

// In the order of their declaration: "-m", "--model".
std::vector<std::string> NamesOf(const OptionText& text);

bool HasName(const OptionText& text, std::string_view name);

// The name to speak of an option by: the long one that was given, else the first long one.
std::string SpokenName(const OptionText& text, const std::string& given);

// A value as messages show it: printable, and not too long.
std::string ShownValue(std::string_view value);

}  // namespace baton
