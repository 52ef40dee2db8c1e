// JSON values that a user wrote, as messages quote them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace baton {

// The value as it is written, cut if it is long; of one that holds others, what it is.
std::string JsonValueText(const nlohmann::json& value);

// A field's name, cut if it is long: between two characters. Requires: valid UTF-8.
std::string JsonNameText(std::string_view name);

}  // namespace baton
