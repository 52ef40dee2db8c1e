// Model files in the GGUF format, versions 2 and 3, little-endian.
//
// A GgufFile maps its file read-only and checks all of the header before anything uses it: when
// Open succeeds, every tensor lies inside the file, overlaps no other, and has a known type and a
// size that fits its shape. Nothing is allocated from a number in the file that the file's own
// size does not bear out. Messages name the file, the byte offset, the value and the limit.
//
// Split models: a file NAME-0000k-of-0000N.gguf is part k of N. Opening any part opens all: parts
// are looked up by that name in the folder of the given one, and nowhere else; metadata comes from
// part 1; each part must agree with its name in `split.no` (from 0) and `split.count`, and all
// together hold `split.tensors.count` tensors.
//
// The mapping follows the file: if another program shortens a model while it is in use, reading
// the lost part raises SIGBUS, as with any mapped file. Replace models by renaming.
//
// Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/gguf_value.h"
#include "format/mapped_file.h"
#include "tensor/dtype.h"

namespace baton {

// What a header may hold at most. Where the format states a limit, it is that one.
struct GgufLimits {
  static constexpr uint64_t kMaxKeys = 1u << 16;
  static constexpr uint64_t kMaxKeyBytes = 65535;
  static constexpr uint64_t kMaxStringBytes = 64u << 20;
  static constexpr uint64_t kMaxArrayElements = 1u << 26;
  static constexpr uint64_t kMaxTensors = 1u << 18;
  static constexpr uint64_t kMaxTensorNameBytes = 64;
  static constexpr uint32_t kMaxDims = 4;
  static constexpr uint32_t kDefaultAlignment = 32;
  static constexpr uint32_t kMinAlignment = 8;
  static constexpr uint32_t kMaxAlignment = 1u << 20;
  static constexpr uint32_t kMaxParts = 1024;
};

// Where a tensor is and what it is.
struct GgufTensor {
  std::string_view name;
  DType type = DType::kF32;
  std::vector<uint64_t> dims;       // file order: dims[0] is the row length, innermost
  const std::byte* data = nullptr;  // in the mapping; aligned as the file says
  uint64_t byte_size = 0;
  uint64_t file_offset = 0;  // of data, in its part
  size_t part = 0;           // index of the part that holds it; 0 if the model is one file

  uint64_t row_length() const { return dims[0]; }
  // The number of rows: the product of the other dimensions.
  uint64_t num_rows() const;
  uint64_t num_elements() const { return row_length() * num_rows(); }
  // The bytes of row r. Requires: r < num_rows().
  std::span<const std::byte> Row(uint64_t r) const;
};

struct GgufKeyValue {
  std::string_view key;
  GgufValue value;
};

// An open model. Move-only; views handed out stay valid when it is moved, until it is destroyed.
// Threads: const functions from any thread.
class GgufFile {
 public:
  // Maps and checks the model at `path`; for a split model, all its parts.
  // Errors: kNotFound if a file is missing; kInvalid if it is no regular file, empty, no GGUF file
  // at all or of a version, byte order or split that cannot be opened; kCorrupt if the header
  // contradicts itself or the file's size; kInternal if the system fails.
  static Result<GgufFile> Open(const std::string& path);

  // Checks an image in memory, which must outlive the result. `name` stands in messages for the
  // path. A part of a split model is refused.
  static Result<GgufFile> Parse(std::span<const std::byte> image, const std::string& name);

  GgufFile(GgufFile&&) noexcept;
  GgufFile& operator=(GgufFile&&) noexcept;
  ~GgufFile();

  // The path given to Open, or the name given to Parse.
  const std::string& name() const { return name_; }
  uint32_t version() const { return version_; }
  uint32_t alignment() const { return alignment_; }
  // The files that make up the model: their paths, in order; one if it is not split.
  std::span<const std::string> part_paths() const { return part_paths_; }
  // The size of all parts together.
  uint64_t total_file_bytes() const { return total_file_bytes_; }

  // The bytes of the (first) file before its data: all metadata, names and shapes.
  std::span<const std::byte> header() const { return header_; }
  // All metadata, in file order.
  std::span<const GgufKeyValue> metadata() const { return metadata_; }
  // The value of a key, or nullptr.
  const GgufValue* Find(std::string_view key) const;
  bool Has(std::string_view key) const { return Find(key) != nullptr; }

  // The value of a key as the wanted type. Integers of any stored width do if the value fits;
  // floats may be stored as either width or as an integer.
  // Errors: kNotFound if the key is missing (the ...Or forms return `otherwise`); kCorrupt if it
  // has another type or does not fit; messages name the key and what was expected.
  Result<uint32_t> GetUint32(std::string_view key) const;
  Result<uint64_t> GetUint64(std::string_view key) const;
  Result<int64_t> GetInt64(std::string_view key) const;
  Result<float> GetFloat32(std::string_view key) const;
  Result<bool> GetBool(std::string_view key) const;
  Result<std::string_view> GetString(std::string_view key) const;
  Result<int64_t> GetInt64Or(std::string_view key, int64_t otherwise) const;
  Result<float> GetFloat32Or(std::string_view key, float otherwise) const;
  Result<bool> GetBoolOr(std::string_view key, bool otherwise) const;
  Result<std::string_view> GetStringOr(std::string_view key, std::string_view otherwise) const;

  // Arrays; same rules for their elements. The strings stay in the file, numbers are copied.
  Result<std::span<const std::string_view>> GetStringArray(std::string_view key) const;
  Result<std::vector<int32_t>> GetInt32Array(std::string_view key) const;
  Result<std::vector<float>> GetFloat32Array(std::string_view key) const;
  Result<std::vector<bool>> GetBoolArray(std::string_view key) const;

  // All tensors, in file order, part by part. Empty for a file that holds only a vocabulary.
  std::span<const GgufTensor> tensors() const { return tensors_; }
  // The tensor of that name, or nullptr.
  const GgufTensor* FindTensor(std::string_view name) const;

  // Whether Baton can compute with every tensor's type.
  // Errors: kUnavailable, naming each type it lacks, how many tensors have it, and the first.
  Result<void> CheckSupportedTypes() const;

  // Gives back the memory that holds a tensor's pages; they are read anew when touched. Pages that
  // it shares with its neighbours stay.
  void ReleasePages(const GgufTensor& tensor) const;

 private:
  friend class GgufAssembler;
  GgufFile() = default;

  std::string name_;
  uint32_t version_ = 0;
  uint32_t alignment_ = 0;
  uint64_t total_file_bytes_ = 0;
  std::span<const std::byte> header_;
  std::vector<std::string> part_paths_;
  std::vector<MappedFile> parts_;  // empty if parsed from memory
  std::vector<GgufKeyValue> metadata_;
  std::vector<uint32_t> metadata_by_key_;  // indices into metadata_, sorted by key
  std::vector<GgufTensor> tensors_;
  std::vector<uint32_t> tensors_by_name_;  // indices into tensors_, sorted by name
};

}  // namespace baton
