#include "simulate/json_value_text.h"

namespace baton {
namespace {

constexpr size_t kMaxBytes = 100;

}  // namespace

// What holds others may be nested deeper than a stack is.
std::string JsonValueText(const nlohmann::json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  return JsonNameText(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::string JsonNameText(std::string_view name) {
  if (name.size() <= kMaxBytes) return std::string(name);
  size_t end = kMaxBytes;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
  return std::string(name.substr(0, end)) + "...";
}

}  // namespace baton
