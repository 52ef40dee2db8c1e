#include "format/gguf_value.h"

#include <cstring>
#include <limits>

#include "base/check.h"

namespace baton {
namespace {

template <typename T>
T Load(const std::byte* bytes) {
  T value{};
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

}  // namespace

std::string_view GgufTypeName(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
      return "uint8";
    case GgufType::kInt8:
      return "int8";
    case GgufType::kUint16:
      return "uint16";
    case GgufType::kInt16:
      return "int16";
    case GgufType::kUint32:
      return "uint32";
    case GgufType::kInt32:
      return "int32";
    case GgufType::kFloat32:
      return "float32";
    case GgufType::kBool:
      return "bool";
    case GgufType::kString:
      return "string";
    case GgufType::kArray:
      return "array";
    case GgufType::kUint64:
      return "uint64";
    case GgufType::kInt64:
      return "int64";
    case GgufType::kFloat64:
      return "float64";
  }
  return "unknown";
}

std::optional<GgufType> GgufTypeFromId(uint32_t id) {
  if (id > static_cast<uint32_t>(GgufType::kFloat64)) return std::nullopt;
  return static_cast<GgufType>(id);
}

size_t GgufScalarBytes(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kBool:
      return 1;
    case GgufType::kUint16:
    case GgufType::kInt16:
      return 2;
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kFloat32:
      return 4;
    case GgufType::kUint64:
    case GgufType::kInt64:
    case GgufType::kFloat64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      return 0;
  }
  return 0;
}

std::optional<uint64_t> GgufValue::AsUint64() const {
  if (const auto* value = std::get_if<uint64_t>(&data_)) return *value;
  if (const auto* value = std::get_if<int64_t>(&data_)) {
    if (*value >= 0) return static_cast<uint64_t>(*value);
  }
  return std::nullopt;
}

std::optional<int64_t> GgufValue::AsInt64() const {
  if (const auto* value = std::get_if<int64_t>(&data_)) return *value;
  if (const auto* value = std::get_if<uint64_t>(&data_)) {
    if (*value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return static_cast<int64_t>(*value);
    }
  }
  return std::nullopt;
}

std::optional<double> GgufValue::AsFloat64() const {
  if (const auto* value = std::get_if<double>(&data_)) return *value;
  if (const auto* value = std::get_if<uint64_t>(&data_)) return static_cast<double>(*value);
  if (const auto* value = std::get_if<int64_t>(&data_)) return static_cast<double>(*value);
  return std::nullopt;
}

std::optional<bool> GgufValue::AsBool() const {
  if (const auto* value = std::get_if<bool>(&data_)) return *value;
  return std::nullopt;
}

std::optional<std::string_view> GgufValue::AsString() const {
  if (const auto* value = std::get_if<std::string_view>(&data_)) return *value;
  return std::nullopt;
}

GgufValue GgufValue::Element(size_t i) const {
  const GgufArray* array = AsArray();
  CHECK(array != nullptr);
  CHECK_LT(i, array->size);
  if (array->element_type == GgufType::kString) {
    return GgufValue(GgufType::kString, array->strings[i]);
  }
  const size_t width = GgufScalarBytes(array->element_type);
  return ReadGgufScalar(array->element_type, array->bytes.data() + i * width);
}

GgufValue ReadGgufScalar(GgufType type, const std::byte* bytes) {
  switch (type) {
    case GgufType::kUint8:
      return {type, uint64_t{Load<uint8_t>(bytes)}};
    case GgufType::kInt8:
      return {type, int64_t{Load<int8_t>(bytes)}};
    case GgufType::kUint16:
      return {type, uint64_t{Load<uint16_t>(bytes)}};
    case GgufType::kInt16:
      return {type, int64_t{Load<int16_t>(bytes)}};
    case GgufType::kUint32:
      return {type, uint64_t{Load<uint32_t>(bytes)}};
    case GgufType::kInt32:
      return {type, int64_t{Load<int32_t>(bytes)}};
    case GgufType::kFloat32:
      return {type, double{Load<float>(bytes)}};
    case GgufType::kBool:
      return {type, Load<uint8_t>(bytes) != 0};
    case GgufType::kUint64:
      return {type, Load<uint64_t>(bytes)};
    case GgufType::kInt64:
      return {type, Load<int64_t>(bytes)};
    case GgufType::kFloat64:
      return {type, Load<double>(bytes)};
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  CHECK_NE(GgufTypeName(type), "string");
  CHECK_NE(GgufTypeName(type), "array");
  return {};
}

}  // namespace baton
