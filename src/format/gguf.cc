#include "format/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/number_text.h"
#include "format/byte_reader.h"

namespace baton {
namespace {

// "an array of string", "int32 -1": what a value is, for messages.
std::string Describe(const GgufValue& value) {
  if (const GgufArray* array = value.AsArray()) {
    return fmt::format("an array of {} {}", array->size, GgufTypeName(array->element_type));
  }
  const std::string_view type = GgufTypeName(value.type());
  if (const auto text = value.AsString()) return fmt::format("{} {}", type, QuoteForMessage(*text));
  if (const auto flag = value.AsBool()) return fmt::format("{} {}", type, *flag);
  if (const auto number = value.AsInt64()) return fmt::format("{} {}", type, *number);
  if (const auto number = value.AsUint64()) return fmt::format("{} {}", type, *number);
  return fmt::format("{} {}", type, value.AsFloat64().value_or(0));
}

template <typename T>
std::optional<T> NarrowUnsigned(const GgufValue& value) {
  const std::optional<uint64_t> wide = value.AsUint64();
  if (!wide || *wide > std::numeric_limits<T>::max()) return std::nullopt;
  return static_cast<T>(*wide);
}

template <typename T>
std::optional<T> NarrowSigned(const GgufValue& value) {
  const std::optional<int64_t> wide = value.AsInt64();
  if (!wide || *wide > std::numeric_limits<T>::max() || *wide < std::numeric_limits<T>::min()) {
    return std::nullopt;
  }
  return static_cast<T>(*wide);
}

// Values beyond the range of binary32 do not fit; infinities and NaN as stored do.
std::optional<float> NarrowFloat(const GgufValue& value) {
  const std::optional<double> wide = value.AsFloat64();
  if (!wide) return std::nullopt;
  if (std::isfinite(*wide) && std::abs(*wide) > std::numeric_limits<float>::max()) {
    return std::nullopt;
  }
  return static_cast<float>(*wide);
}

std::optional<bool> ToBool(const GgufValue& value) {
  return value.AsBool();
}
std::optional<std::string_view> ToString(const GgufValue& value) {
  return value.AsString();
}

// A key that is wanted as `expected`; one function for all getters.
struct Wanted {
  const GgufFile& file;
  std::string_view key;
  std::string_view expected;
};

tl::unexpected<Error> FailMissing(const Wanted& wanted) {
  return Fail(ErrorCode::kNotFound, fmt::format("{}: metadata key {} is missing, {} expected",
                                                wanted.file.name(), wanted.key, wanted.expected));
}

tl::unexpected<Error> FailType(const Wanted& wanted, const std::string& found) {
  return Fail(ErrorCode::kCorrupt,
              fmt::format("{}: metadata key {} must be {}, it is {}", wanted.file.name(),
                          wanted.key, wanted.expected, found));
}

template <typename T>
Result<T> Get(const Wanted& wanted, std::optional<T> (*convert)(const GgufValue&)) {
  const GgufValue* value = wanted.file.Find(wanted.key);
  if (value == nullptr) return FailMissing(wanted);
  const std::optional<T> converted = convert(*value);
  if (!converted) return FailType(wanted, Describe(*value));
  return *converted;
}

template <typename T>
Result<T> GetOr(Result<T> result, T otherwise) {
  if (!result && result.error().code == ErrorCode::kNotFound) return otherwise;
  return result;
}

template <typename T>
Result<std::vector<T>> GetArray(const Wanted& wanted,
                                std::optional<T> (*convert)(const GgufValue&)) {
  const GgufValue* value = wanted.file.Find(wanted.key);
  if (value == nullptr) return FailMissing(wanted);
  const GgufArray* array = value->AsArray();
  if (array == nullptr) return FailType(wanted, Describe(*value));
  std::vector<T> elements;
  elements.reserve(array->size);
  for (size_t i = 0; i < array->size; ++i) {
    const GgufValue element = value->Element(i);
    const std::optional<T> converted = convert(element);
    if (!converted) return FailType(wanted, fmt::format("{} at index {}", Describe(element), i));
    elements.push_back(*converted);
  }
  return elements;
}

}  // namespace

uint64_t GgufTensor::num_rows() const {
  uint64_t rows = 1;
  for (size_t d = 1; d < dims.size(); ++d) rows *= dims[d];
  return rows;
}

std::span<const std::byte> GgufTensor::Row(uint64_t r) const {
  CHECK_LT(r, num_rows());
  const uint64_t row_bytes = byte_size / num_rows();
  return {data + r * row_bytes, row_bytes};
}

GgufFile::GgufFile(GgufFile&&) noexcept = default;
GgufFile& GgufFile::operator=(GgufFile&&) noexcept = default;
GgufFile::~GgufFile() = default;

const GgufValue* GgufFile::Find(std::string_view key) const {
  const auto found =
      std::lower_bound(metadata_by_key_.begin(), metadata_by_key_.end(), key,
                       [&](uint32_t i, std::string_view k) { return metadata_[i].key < k; });
  if (found == metadata_by_key_.end() || metadata_[*found].key != key) return nullptr;
  return &metadata_[*found].value;
}

Result<uint32_t> GgufFile::GetUint32(std::string_view key) const {
  return Get({*this, key, "an integer from 0 to 4294967295"}, NarrowUnsigned<uint32_t>);
}

Result<uint64_t> GgufFile::GetUint64(std::string_view key) const {
  return Get({*this, key, "an integer not below 0"}, NarrowUnsigned<uint64_t>);
}

Result<int64_t> GgufFile::GetInt64(std::string_view key) const {
  return Get({*this, key, "an integer"}, NarrowSigned<int64_t>);
}

Result<float> GgufFile::GetFloat32(std::string_view key) const {
  return Get({*this, key, "a number"}, NarrowFloat);
}

Result<bool> GgufFile::GetBool(std::string_view key) const {
  return Get({*this, key, "a bool"}, ToBool);
}

Result<std::string_view> GgufFile::GetString(std::string_view key) const {
  return Get({*this, key, "a string"}, ToString);
}

Result<int64_t> GgufFile::GetInt64Or(std::string_view key, int64_t otherwise) const {
  return GetOr(GetInt64(key), otherwise);
}

Result<float> GgufFile::GetFloat32Or(std::string_view key, float otherwise) const {
  return GetOr(GetFloat32(key), otherwise);
}

Result<bool> GgufFile::GetBoolOr(std::string_view key, bool otherwise) const {
  return GetOr(GetBool(key), otherwise);
}

Result<std::string_view> GgufFile::GetStringOr(std::string_view key,
                                               std::string_view otherwise) const {
  return GetOr(GetString(key), otherwise);
}

Result<std::span<const std::string_view>> GgufFile::GetStringArray(std::string_view key) const {
  const Wanted wanted{*this, key, "an array of strings"};
  const GgufValue* value = Find(key);
  if (value == nullptr) return FailMissing(wanted);
  const GgufArray* array = value->AsArray();
  const bool fits =
      array != nullptr && (array->element_type == GgufType::kString || array->size == 0);
  if (!fits) return FailType(wanted, Describe(*value));
  return std::span<const std::string_view>(array->strings);
}

Result<std::vector<int32_t>> GgufFile::GetInt32Array(std::string_view key) const {
  return GetArray({*this, key, "an array of 32-bit integers"}, NarrowSigned<int32_t>);
}

Result<std::vector<float>> GgufFile::GetFloat32Array(std::string_view key) const {
  return GetArray({*this, key, "an array of numbers"}, NarrowFloat);
}

Result<std::vector<bool>> GgufFile::GetBoolArray(std::string_view key) const {
  return GetArray({*this, key, "an array of bool"}, ToBool);
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto found =
      std::lower_bound(tensors_by_name_.begin(), tensors_by_name_.end(), name,
                       [&](uint32_t i, std::string_view n) { return tensors_[i].name < n; });
  if (found == tensors_by_name_.end() || tensors_[*found].name != name) return nullptr;
  return &tensors_[*found];
}

Result<void> GgufFile::CheckSupportedTypes() const {
  std::string lacking;
  for (const DTypeTraits& traits : AllDTypes()) {
    if (IsSupported(traits.type)) continue;
    const auto has_type = [&](const GgufTensor& tensor) { return tensor.type == traits.type; };
    const auto first = std::find_if(tensors_.begin(), tensors_.end(), has_type);
    if (first == tensors_.end()) continue;
    lacking +=
        fmt::format("{}{} ({}, first {})", lacking.empty() ? "" : ", ", traits.name,
                    CountOf(std::count_if(tensors_.begin(), tensors_.end(), has_type), "tensor"),
                    QuoteForMessage(first->name));
  }
  if (lacking.empty()) return {};
  return Fail(
      ErrorCode::kUnavailable,
      fmt::format("{}: has tensor types that Baton cannot compute with yet: {}; get or make "
                  "the model in a supported type, such as Q4_K_M or Q8_0",
                  name_, lacking));
}

void GgufFile::ReleasePages(const GgufTensor& tensor) const {
  if (parts_.empty()) return;
  CHECK_LT(tensor.part, parts_.size());
  parts_[tensor.part].Release({tensor.data, tensor.byte_size});
}

}  // namespace baton
