// Writes model files in the GGUF format: metadata, then tensors whose bytes a callback supplies.
//
// Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/gguf_value.h"
#include "tensor/dtype.h"

namespace baton {

struct GgufWriterOptions {
  uint32_t version = 3;     // 2 or 3
  uint32_t alignment = 32;  // power of two; other than 32 it is written as general.alignment
};

struct GgufTensorSpec {
  std::string name;
  DType type = DType::kF32;
  std::vector<uint64_t> dims;  // file order: dims[0] is the row length
};

// Collects a header, then writes the file. Setting a key again replaces its value in place.
class GgufWriter {
 public:
  // Fills `out` with the bytes of tensor `index` (in the order added) from byte `offset` on. Called
  // with rising offsets; pieces are whole blocks of the tensor's type, at most kPieceBytes long.
  struct Piece {
    size_t index;
    uint64_t offset;
    std::span<std::byte> out;
  };
  using Fill = std::function<Result<void>(const Piece&)>;
  static constexpr size_t kPieceBytes = size_t{4} << 20;

  explicit GgufWriter(const GgufWriterOptions& options);

  void SetUint16(std::string_view key, uint16_t value);
  void SetUint32(std::string_view key, uint32_t value);
  void SetInt32(std::string_view key, int32_t value);
  void SetUint64(std::string_view key, uint64_t value);
  void SetFloat32(std::string_view key, float value);
  void SetBool(std::string_view key, bool value);
  void SetString(std::string_view key, std::string_view value);
  void SetStringArray(std::string_view key, std::span<const std::string> values);
  void SetInt32Array(std::string_view key, std::span<const int32_t> values);
  void SetFloat32Array(std::string_view key, std::span<const float> values);
  // Any value, as read from another file.
  void Set(std::string_view key, const GgufValue& value);
  // Removes a key if it is there.
  void Remove(std::string_view key);

  // Adds a tensor; data follow one another in this order.
  // Errors: kInvalid if the shape is none that a file can have, or rows are not whole blocks.
  Result<void> AddTensor(const GgufTensorSpec& spec);
  size_t num_tensors() const { return tensors_.size(); }
  uint64_t tensor_bytes(size_t index) const { return tensors_[index].byte_size; }

  // Writes the file under another name beside `path`, then renames it, so that no half of a file
  // is ever found there. Errors: those of `fill`; kInternal if the system fails (disk full).
  Result<void> WriteFile(const std::string& path, const Fill& fill) const;
  // The file as bytes in memory. Errors: those of `fill`.
  Result<std::vector<std::byte>> ToBytes(const Fill& fill) const;

 private:
  struct Entry {
    std::string key;
    std::vector<std::byte> value;  // type and payload as in the file
  };
  struct Tensor {
    GgufTensorSpec spec;
    uint64_t byte_size = 0;
    uint64_t data_offset = 0;
  };
  using Sink = std::function<Result<void>(std::span<const std::byte>)>;

  void SetEncoded(std::string_view key, std::vector<std::byte> value);
  std::vector<std::byte> EncodeHeader() const;
  Result<void> Emit(const Fill& fill, const Sink& sink) const;

  GgufWriterOptions options_;
  std::vector<Entry> entries_;
  std::vector<Tensor> tensors_;
  uint64_t data_bytes_ = 0;
};

}  // namespace baton
