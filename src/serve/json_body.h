// A request's body as JSON, and its fields with their types and ranges.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api_error.h"

namespace baton {

// Nesting beyond this is refused.
inline constexpr int kMaxJsonDepth = 64;
// Of one object.
inline constexpr size_t kMaxJsonKeys = 256;

// The body's object, keys in their order. An object under "logit_bias" may have any number of
// entries and comes as a list of [key, value].
// Errors: 400: no JSON (comments, NaN, a number beyond binary64, text that is not UTF-8), no
// object, nested too deep, too many keys, a key that stands twice in one object.
ApiResult<nlohmann::ordered_json> ParseJsonBody(std::string_view body);

struct IntegerLimits {
  int64_t min = 0;
  int64_t max = 0;
};

struct RealLimits {
  double min = 0;
  double max = 0;
};

// Typed access to the fields of one object. A field that is null counts as not there. Every error
// is 400 and has the field's name, with the object's own in front: "stream_options.include_usage".
class JsonFields {
 public:
  // Requires: `object` is one, and outlives this.
  explicit JsonFields(const nlohmann::ordered_json& object) : JsonFields(object, {}) {}
  JsonFields(const nlohmann::ordered_json& object, std::string name);

  // The value of a field, or null if it is not there.
  const nlohmann::ordered_json* Find(std::string_view field) const;
  // The field's name with that of the object in front.
  std::string NameOf(std::string_view field) const;

  ApiResult<std::optional<bool>> Bool(std::string_view field) const;
  // A number without fraction or exponent.
  ApiResult<std::optional<int64_t>> Integer(std::string_view field, IntegerLimits limits) const;
  // Likewise, from −2^63 to 2^64 − 1, as its 64 bits.
  ApiResult<std::optional<uint64_t>> Bits64(std::string_view field) const;
  ApiResult<std::optional<double>> Real(std::string_view field, RealLimits limits) const;
  ApiResult<std::optional<std::string>> Text(std::string_view field) const;
  // Null if it is not there.
  ApiResult<const nlohmann::ordered_json*> Object(std::string_view field) const;

 private:
  tl::unexpected<ApiError> WrongType(std::string_view field, std::string_view wanted,
                                     const nlohmann::ordered_json& value) const;
  ApiResult<> CheckWhole(std::string_view field, const nlohmann::ordered_json& value) const;

  const nlohmann::ordered_json* object_;
  std::string name_;
};

// What a value is, for messages: "a string", "null", ...
std::string_view JsonTypeName(const nlohmann::ordered_json& value);

}  // namespace baton
