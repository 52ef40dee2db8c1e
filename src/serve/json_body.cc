#include "serve/json_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "text/unicode.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxQuotedBytes = 100;
constexpr auto kMaxInt = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());

tl::unexpected<ApiError> BadBody(std::string message) {
  return tl::unexpected<ApiError>(FieldError({}, std::move(message), "invalid_json"));
}

// Whether brackets nest no deeper than the limit, whatever else is wrong.
bool IsShallow(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxJsonDepth) return false;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return true;
}

std::string Quoted(const std::string& text) {
  return ReplaceInvalidUtf8(std::string_view(text).substr(0, kMaxQuotedBytes));
}

}  // namespace

namespace {

// Watches a parse: finds keys that stand twice, bounds the keys of an object, whose insertion takes
// time in proportion to those that are there, and keeps the entries of the top object's
// "logit_bias", the one field that may have a great many, as a list beside it.
class ParseWatch {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& value) {
    switch (event) {
      case Json::parse_event_t::object_start:
        keys_.emplace_back();
        return true;
      case Json::parse_event_t::object_end:
        if (!keys_.empty()) keys_.pop_back();
        return true;
      case Json::parse_event_t::key:
        return OnKey(value.get_ref<const std::string&>());
      case Json::parse_event_t::value:
        if (in_bias() && depth == 2 && !biases_.empty()) biases_.back()[1] = value;
        return true;
      default:
        return true;
    }
  }

  const std::optional<std::string>& repeated() const { return repeated_; }
  bool has_too_many() const { return has_too_many_; }
  Json TakeBiases() { return std::move(biases_); }

 private:
  bool in_bias() const { return keys_.size() == 2 && top_key_ == "logit_bias"; }

  bool OnKey(const std::string& key) {
    if (keys_.empty()) return true;
    if (!keys_.back().insert(key).second && !repeated_) repeated_ = key;
    if (keys_.size() == 1) top_key_ = key;
    if (in_bias()) {
      // What is no plain value stays null.
      biases_.push_back(Json::array({key, nullptr}));
      return false;
    }
    if (keys_.back().size() <= kMaxJsonKeys) return true;
    has_too_many_ = true;
    return false;
  }

  std::vector<std::set<std::string>> keys_;  // of the objects that are open
  std::string top_key_;
  Json biases_ = Json::array();
  std::optional<std::string> repeated_;
  bool has_too_many_ = false;
};

}  // namespace

ApiResult<Json> ParseJsonBody(std::string_view body) {
  if (!IsShallow(body)) {
    return BadBody(fmt::format("the JSON is nested deeper than {} levels", kMaxJsonDepth));
  }
  ParseWatch watch;
  try {
    Json json = Json::parse(body, [&](int depth, Json::parse_event_t event, Json& value) {
      return watch(depth, event, value);
    });
    if (watch.repeated()) {
      return BadBody(
          fmt::format("the key '{}' stands twice in one object", Quoted(*watch.repeated())));
    }
    if (watch.has_too_many()) {
      return BadBody(fmt::format("an object has more than {} keys", kMaxJsonKeys));
    }
    if (!json.is_object()) return BadBody("the body must be a JSON object");
    if (const auto bias = json.find("logit_bias"); bias != json.end() && bias->is_object()) {
      *bias = watch.TakeBiases();
    }
    return json;
  } catch (const Json::exception& error) {
    // The library's words begin with a number in brackets that means nothing to a client.
    std::string_view why = error.what();
    why.remove_prefix(std::min(why.find("] ") + 2, why.size()));
    return BadBody(fmt::format("the body is no JSON: {}",
                               ReplaceInvalidUtf8(why.substr(0, 3 * kMaxQuotedBytes))));
  }
}

std::string_view JsonTypeName(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "a list";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a truth value";
    case Json::value_t::number_float:
      return "a number with a fraction";
    default:
      return "a number";
  }
}

JsonFields::JsonFields(const Json& object, std::string name)
    : object_(&object), name_(std::move(name)) {}

const Json* JsonFields::Find(std::string_view field) const {
  const auto found = object_->find(field);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

std::string JsonFields::NameOf(std::string_view field) const {
  return name_.empty() ? std::string(field) : fmt::format("{}.{}", name_, field);
}

tl::unexpected<ApiError> JsonFields::WrongType(std::string_view field, std::string_view wanted,
                                               const Json& value) const {
  return tl::unexpected<ApiError>(
      FieldError(NameOf(field),
                 fmt::format("'{}' must be {}, not {}", NameOf(field), wanted, JsonTypeName(value)),
                 "invalid_type"));
}

// Digits for which 64 bits are too few come as a real, and are whole all the same.
ApiResult<> JsonFields::CheckWhole(std::string_view field, const Json& value) const {
  if (!value.is_number()) return WrongType(field, "a whole number", value);
  if (value.is_number_integer() || std::abs(value.get<double>()) >= 0x1p63) return {};
  return tl::unexpected<ApiError>(FieldError(
      NameOf(field),
      fmt::format("'{}' must be a whole number without decimal point or exponent, not {}",
                  NameOf(field), value.dump()),
      "invalid_type"));
}

ApiResult<std::optional<bool>> JsonFields::Bool(std::string_view field) const {
  const Json* value = Find(field);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_boolean()) return WrongType(field, "true or false", *value);
  return std::optional<bool>(value->get<bool>());
}

ApiResult<std::optional<int64_t>> JsonFields::Integer(std::string_view field,
                                                      IntegerLimits limits) const {
  const Json* value = Find(field);
  if (value == nullptr) return std::optional<int64_t>();
  if (auto whole = CheckWhole(field, *value); !whole) return ForwardApi(whole);
  // Numbers beyond int64 are kept as unsigned ones or as reals.
  const bool is_huge =
      value->is_number_float() || (value->is_number_unsigned() && value->get<uint64_t>() > kMaxInt);
  if (is_huge || value->get<int64_t>() < limits.min || value->get<int64_t>() > limits.max) {
    return BadField(NameOf(field), fmt::format("'{}' must be from {} to {}, got {}", NameOf(field),
                                               limits.min, limits.max, value->dump()));
  }
  return std::optional<int64_t>(value->get<int64_t>());
}

ApiResult<std::optional<uint64_t>> JsonFields::Bits64(std::string_view field) const {
  const Json* value = Find(field);
  if (value == nullptr) return std::optional<uint64_t>();
  if (auto whole = CheckWhole(field, *value); !whole) return ForwardApi(whole);
  if (value->is_number_float()) {
    return BadField(NameOf(field),
                    fmt::format("'{}' must be from {} to {}, got {}", NameOf(field),
                                std::numeric_limits<int64_t>::min(),
                                std::numeric_limits<uint64_t>::max(), value->dump()));
  }
  if (value->is_number_unsigned()) return std::optional<uint64_t>(value->get<uint64_t>());
  return std::optional<uint64_t>(static_cast<uint64_t>(value->get<int64_t>()));
}

ApiResult<std::optional<double>> JsonFields::Real(std::string_view field, RealLimits limits) const {
  const Json* value = Find(field);
  if (value == nullptr) return std::optional<double>();
  if (!value->is_number()) return WrongType(field, "a number", *value);
  const auto number = value->get<double>();
  if (!std::isfinite(number) || number < limits.min || number > limits.max) {
    return BadField(NameOf(field), fmt::format("'{}' must be from {} to {}, got {}", NameOf(field),
                                               limits.min, limits.max, value->dump()));
  }
  return std::optional<double>(number);
}

ApiResult<std::optional<std::string>> JsonFields::Text(std::string_view field) const {
  const Json* value = Find(field);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return WrongType(field, "a string", *value);
  return std::optional<std::string>(value->get<std::string>());
}

ApiResult<const Json*> JsonFields::Object(std::string_view field) const {
  const Json* value = Find(field);
  if (value == nullptr) return value;
  if (!value->is_object()) return WrongType(field, "an object", *value);
  return value;
}

}  // namespace baton
