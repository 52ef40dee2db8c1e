// A model file in memory whose tensors can be changed, left out and joined, for tests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "format/gguf.h"
#include "format/gguf_writer.h"
#include "tensor/dtype.h"

namespace baton {

struct ImageTensor {
  GgufTensorSpec spec;
  std::vector<std::byte> bytes;
};

class ModelImage {
 public:
  // Requires: `bytes` are a valid file.
  explicit ModelImage(std::vector<std::byte> bytes)
      : source_(std::move(bytes)), file_(*GgufFile::Parse(source_, "image")) {
    for (const GgufTensor& tensor : file_.tensors()) {
      tensors_.push_back({{std::string(tensor.name), tensor.type, tensor.dims},
                          {tensor.data, tensor.data + tensor.byte_size}});
    }
  }
  ModelImage(const ModelImage&) = delete;
  ModelImage& operator=(const ModelImage&) = delete;

  std::vector<ImageTensor>& tensors() { return tensors_; }
  ImageTensor& tensor(std::string_view name) {
    const auto found = Find(name);
    CHECK(found != tensors_.end());
    return *found;
  }
  void Remove(std::string_view name) {
    const auto found = Find(name);
    CHECK(found != tensors_.end());
    tensors_.erase(found);
  }
  // Adds a tensor of binary32 values, or replaces the one of that name.
  void SetFloats(std::string_view name, std::span<const float> values) {
    ImageTensor tensor{{std::string(name), DType::kF32, {values.size()}},
                       std::vector<std::byte>(values.size_bytes())};
    std::memcpy(tensor.bytes.data(), values.data(), values.size_bytes());
    const auto found = Find(name);
    if (found != tensors_.end()) tensors_.erase(found);
    tensors_.push_back(std::move(tensor));
  }
  // Makes one tensor of the rows of several of the same type and width, in their order.
  void Fuse(std::string_view name, const std::vector<std::string>& parts) {
    ImageTensor fused = tensor(parts.front());
    fused.spec.name = std::string(name);
    for (size_t i = 1; i < parts.size(); ++i) {
      const ImageTensor& part = tensor(parts[i]);
      fused.spec.dims[1] += part.spec.dims[1];
      fused.bytes.insert(fused.bytes.end(), part.bytes.begin(), part.bytes.end());
    }
    for (const std::string& part : parts) Remove(part);
    tensors_.push_back(std::move(fused));
  }

  // The file with the tensors as they are now.
  std::vector<std::byte> Bytes() const {
    GgufWriter writer({});
    for (const GgufKeyValue& entry : file_.metadata()) writer.Set(entry.key, entry.value);
    for (const ImageTensor& tensor : tensors_) CHECK(writer.AddTensor(tensor.spec).has_value());
    Result<std::vector<std::byte>> bytes =
        writer.ToBytes([&](const GgufWriter::Piece& piece) -> Result<> {
          const ImageTensor& tensor = tensors_[piece.index];
          CHECK_LE(piece.offset + piece.out.size(), tensor.bytes.size());
          std::memcpy(piece.out.data(), tensor.bytes.data() + piece.offset, piece.out.size());
          return {};
        });
    CHECK(bytes.has_value());
    return *std::move(bytes);
  }

 private:
  std::vector<ImageTensor>::iterator Find(std::string_view name) {
    return std::ranges::find_if(
        tensors_, [&](const ImageTensor& tensor) { return tensor.spec.name == name; });
  }

  std::vector<std::byte> source_;
  GgufFile file_;
  std::vector<ImageTensor> tensors_;
};

}  // namespace baton
