// One metadata value of a GGUF file: a number, a truth value, a string or an array of these.
//
// Strings and array elements stay where the file is mapped; a value is valid as long as its
// GgufFile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

namespace baton {

// The value of an enumerator is the type's id in the file.
enum class GgufType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// The type's name in messages: "uint32", "string", "array".
std::string_view GgufTypeName(GgufType type);

// The type with this id, if there is one.
std::optional<GgufType> GgufTypeFromId(uint32_t id);

// The bytes of a scalar of this type; 0 for strings and arrays.
size_t GgufScalarBytes(GgufType type);

// An array's elements, all of one type (never arrays).
struct GgufArray {
  GgufType element_type = GgufType::kUint8;
  size_t size = 0;
  std::span<const std::byte> bytes;       // packed and unaligned; empty for strings
  std::vector<std::string_view> strings;  // for strings only
};

class GgufValue {
 public:
  using Data = std::variant<uint64_t, int64_t, double, bool, std::string_view, GgufArray>;

  GgufValue() = default;
  GgufValue(GgufType type, Data data) : type_(type), data_(std::move(data)) {}

  // The type as stored, so that all integer widths can be told apart.
  GgufType type() const { return type_; }

  // The number, if it is an integer of any width that fits the wanted one; nothing otherwise.
  std::optional<uint64_t> AsUint64() const;
  std::optional<int64_t> AsInt64() const;
  // The number, if it is one (integers too, rounded to nearest); nothing otherwise.
  std::optional<double> AsFloat64() const;
  std::optional<bool> AsBool() const;
  std::optional<std::string_view> AsString() const;
  // The array, or nullptr if the value is none.
  const GgufArray* AsArray() const { return std::get_if<GgufArray>(&data_); }

  // Element i of an array as a scalar value. Requires: AsArray() != nullptr, i < size.
  GgufValue Element(size_t i) const;

 private:
  GgufType type_ = GgufType::kUint8;
  Data data_ = uint64_t{0};
};

// A scalar of this type at `bytes`, which holds GgufScalarBytes(type) little-endian bytes.
GgufValue ReadGgufScalar(GgufType type, const std::byte* bytes);

}  // namespace baton
