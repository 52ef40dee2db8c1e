// Feeds bytes to the GGUF reader as a model file and touches everything that it then offers.
//
// Run: gguf_fuzz -max_total_time=60 CORPUS tests/data/gguf/corpus
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "format/gguf.h"
#include "tensor/dequantize.h"

namespace baton {
namespace {

// Rows longer than this are checked byte by byte, but not decoded, to keep runs short.
constexpr uint64_t kMaxRowElements = 1 << 16;

uint64_t SumBytes(std::span<const std::byte> bytes) {
  uint64_t sum = 0;
  for (const std::byte byte : bytes) sum += std::to_integer<uint64_t>(byte);
  return sum;
}

uint64_t WalkValue(const GgufFile& file, const GgufKeyValue& entry) {
  uint64_t sum = SumBytes(std::as_bytes(std::span(entry.key)));
  if (const GgufArray* array = entry.value.AsArray()) {
    for (size_t i = 0; i < array->size; ++i) {
      const GgufValue element = entry.value.Element(i);
      if (const auto text = element.AsString()) sum += SumBytes(std::as_bytes(std::span(*text)));
      sum += element.AsUint64().value_or(0);
    }
  }
  if (const auto text = entry.value.AsString()) sum += SumBytes(std::as_bytes(std::span(*text)));
  sum += file.GetUint32(entry.key).value_or(1);
  sum += file.GetInt64Or(entry.key, 7).has_value() ? 1 : 0;
  sum += file.GetFloat32(entry.key).has_value() ? 1 : 0;
  sum += file.GetBool(entry.key).value_or(false) ? 1 : 0;
  sum += file.GetString(entry.key).has_value() ? 1 : 0;
  sum += file.GetStringArray(entry.key).has_value() ? 1 : 0;
  sum += file.GetInt32Array(entry.key).has_value() ? 1 : 0;
  sum += file.GetFloat32Array(entry.key).has_value() ? 1 : 0;
  sum += file.GetBoolArray(entry.key).has_value() ? 1 : 0;
  return sum;
}

uint64_t WalkTensor(const GgufFile& file, const GgufTensor& tensor) {
  if (file.FindTensor(tensor.name) != &tensor) __builtin_trap();
  if (tensor.num_rows() * tensor.row_length() != tensor.num_elements()) __builtin_trap();
  uint64_t sum = SumBytes({tensor.data, tensor.byte_size});
  if (tensor.row_length() > kMaxRowElements) return sum;
  std::vector<float> row(tensor.row_length());
  for (const uint64_t r : {uint64_t{0}, tensor.num_rows() - 1}) {
    const bool decoded = DequantizeRow(tensor.type, tensor.Row(r).data(), row).has_value();
    if (decoded != IsSupported(tensor.type)) __builtin_trap();
    if (decoded) sum += row.front() > 0 ? 1 : 0;
  }
  return sum;
}

}  // namespace
}  // namespace baton

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace baton;
  const Result<GgufFile> file = GgufFile::Parse(std::as_bytes(std::span(data, size)), "fuzz.gguf");
  if (!file) {
    // Messages are one line of printable text, whatever the file says.
    for (const char c : file.error().message) {
      if (static_cast<unsigned char>(c) < 0x20) __builtin_trap();
    }
    return 0;
  }
  volatile uint64_t sum = 0;
  for (const GgufKeyValue& entry : file->metadata()) sum = sum + WalkValue(*file, entry);
  for (const GgufTensor& tensor : file->tensors()) sum = sum + WalkTensor(*file, tensor);
  sum = sum + (file->CheckSupportedTypes().has_value() ? 1 : 0);
  return 0;
}
