// A GGUF image put together field by field, with no check at all: for tests of the reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace baton {

// Appends fields in the order of the file. Every function returns the object, to be chained.
class GgufImage {
 public:
  struct Head {
    uint32_t version = 3;
    uint64_t tensors = 0;
    uint64_t keys = 0;
  };
  struct Tensor {
    std::string_view name = "t";
    std::vector<uint64_t> dims = {32};
    uint32_t type = 0;
    uint64_t offset = 0;
  };

  explicit GgufImage(const Head& head) {
    Raw("GGUF");
    Int(head.version);
    Int(head.tensors);
    Int(head.keys);
  }

  GgufImage& Raw(std::string_view text) {
    const auto* data = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), data, data + text.size());
    return *this;
  }
  template <typename T>
  GgufImage& Int(T value) {
    const auto* data = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), data, data + sizeof(T));
    return *this;
  }
  GgufImage& String(std::string_view text) { return Int(uint64_t{text.size()}).Raw(text); }
  GgufImage& Key(std::string_view key, uint32_t type) { return String(key).Int(type); }
  GgufImage& Add(const Tensor& tensor) {
    String(tensor.name).Int(static_cast<uint32_t>(tensor.dims.size()));
    for (const uint64_t dim : tensor.dims) Int(dim);
    return Int(tensor.type).Int(tensor.offset);
  }
  // Zeros up to a multiple of 32, then `count` more.
  GgufImage& Data(size_t count) {
    bytes_.resize((bytes_.size() + 31) / 32 * 32 + count);
    return *this;
  }

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace baton
