// JSON as programs and people read it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace baton {

// A document of lines, two blanks deeper with each level, with a line's end behind the last. A list
// of nothing but numbers stands on one line, however long: ids are read by the line, not one each.
// What is not UTF-8 becomes U+FFFD, what is not finite null. Real numbers are the shortest decimals
// that read back the same, with a point or an exponent.
// Requires: what nests is ours; it recurses as deep.
std::string JsonText(const nlohmann::ordered_json& json);

// The same on one line, without blanks and without a line's end.
std::string JsonLine(const nlohmann::ordered_json& json);

}  // namespace baton
