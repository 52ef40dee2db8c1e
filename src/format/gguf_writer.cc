#include "format/gguf_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>

#include "base/check.h"
#include "format/byte_reader.h"
#include "format/gguf.h"

namespace baton {
namespace {

using Bytes = std::vector<std::byte>;

void AppendBytes(Bytes& to, const void* data, size_t size) {
  const auto* bytes = static_cast<const std::byte*>(data);
  to.insert(to.end(), bytes, bytes + size);
}

template <typename T>
void Append(Bytes& to, T value) {
  static_assert(std::is_arithmetic_v<T>);
  AppendBytes(to, &value, sizeof(T));
}

void AppendString(Bytes& to, std::string_view text) {
  Append(to, uint64_t{text.size()});
  AppendBytes(to, text.data(), text.size());
}

void AppendType(Bytes& to, GgufType type) {
  Append(to, static_cast<uint32_t>(type));
}

void AppendInteger(Bytes& to, GgufType type, uint64_t bits) {
  // Little-endian: the low bytes are the number in any width, negative ones included.
  AppendBytes(to, &bits, GgufScalarBytes(type));
}

void AppendScalar(Bytes& to, const GgufValue& value) {
  switch (value.type()) {
    case GgufType::kFloat32:
      Append(to, static_cast<float>(value.AsFloat64().value_or(0)));
      break;
    case GgufType::kFloat64:
      Append(to, value.AsFloat64().value_or(0));
      break;
    case GgufType::kBool:
      Append(to, static_cast<uint8_t>(value.AsBool().value_or(false)));
      break;
    case GgufType::kString:
      AppendString(to, value.AsString().value_or(""));
      break;
    case GgufType::kArray:
      CHECK_NE(GgufTypeName(value.type()), "array");
      break;
    default: {
      const auto wide = value.AsUint64();
      const auto negative = static_cast<uint64_t>(value.AsInt64().value_or(0));
      AppendInteger(to, value.type(), wide ? *wide : negative);
    }
  }
}

template <typename T>
Bytes EncodeScalar(GgufType type, T value) {
  Bytes encoded;
  AppendType(encoded, type);
  Append(encoded, value);
  return encoded;
}

void AppendArrayHead(Bytes& to, GgufType element_type, size_t size) {
  AppendType(to, GgufType::kArray);
  AppendType(to, element_type);
  Append(to, uint64_t{size});
}

void Pad(Bytes& to, size_t alignment) {
  to.resize((to.size() + alignment - 1) / alignment * alignment);
}

// Writes to a file and says what went wrong in words.
class FileSink {
 public:
  explicit FileSink(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "wb")) {}
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;
  ~FileSink() {
    if (file_ != nullptr) std::fclose(file_);
  }
  Result<void> Write(std::span<const std::byte> bytes) {
    if (file_ == nullptr || std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) {
      return FailWrite();
    }
    return {};
  }
  Result<void> Close() {
    std::FILE* file = std::exchange(file_, nullptr);
    if (file == nullptr || std::fclose(file) != 0) return FailWrite();
    return {};
  }

 private:
  tl::unexpected<Error> FailWrite() const {
    return Fail(ErrorCode::kInternal, fmt::format("{}: cannot be written: {}", path_,
                                                  std::generic_category().message(errno)));
  }
  const std::string& path_;
  std::FILE* file_;
};

}  // namespace

GgufWriter::GgufWriter(const GgufWriterOptions& options) : options_(options) {
  CHECK(options.version == 2 || options.version == 3);
  CHECK(std::has_single_bit(options.alignment));
  CHECK_GE(options.alignment, GgufLimits::kMinAlignment);
  CHECK_LE(options.alignment, GgufLimits::kMaxAlignment);
  if (options.alignment != GgufLimits::kDefaultAlignment) {
    SetUint32("general.alignment", options.alignment);
  }
}

void GgufWriter::SetEncoded(std::string_view key, Bytes value) {
  CHECK(!key.empty());
  for (Entry& entry : entries_) {
    if (entry.key != key) continue;
    entry.value = std::move(value);
    return;
  }
  entries_.push_back({.key = std::string(key), .value = std::move(value)});
}

void GgufWriter::SetUint16(std::string_view key, uint16_t value) {
  SetEncoded(key, EncodeScalar(GgufType::kUint16, value));
}
void GgufWriter::SetUint32(std::string_view key, uint32_t value) {
  SetEncoded(key, EncodeScalar(GgufType::kUint32, value));
}
void GgufWriter::SetInt32(std::string_view key, int32_t value) {
  SetEncoded(key, EncodeScalar(GgufType::kInt32, value));
}
void GgufWriter::SetUint64(std::string_view key, uint64_t value) {
  SetEncoded(key, EncodeScalar(GgufType::kUint64, value));
}
void GgufWriter::SetFloat32(std::string_view key, float value) {
  SetEncoded(key, EncodeScalar(GgufType::kFloat32, value));
}
void GgufWriter::SetBool(std::string_view key, bool value) {
  SetEncoded(key, EncodeScalar(GgufType::kBool, static_cast<uint8_t>(value)));
}

void GgufWriter::SetString(std::string_view key, std::string_view value) {
  Set(key, GgufValue(GgufType::kString, value));
}

void GgufWriter::SetStringArray(std::string_view key, std::span<const std::string> values) {
  Bytes encoded;
  AppendArrayHead(encoded, GgufType::kString, values.size());
  for (const std::string& value : values) AppendString(encoded, value);
  SetEncoded(key, std::move(encoded));
}

void GgufWriter::SetInt32Array(std::string_view key, std::span<const int32_t> values) {
  Bytes encoded;
  AppendArrayHead(encoded, GgufType::kInt32, values.size());
  AppendBytes(encoded, values.data(), values.size_bytes());
  SetEncoded(key, std::move(encoded));
}

void GgufWriter::SetFloat32Array(std::string_view key, std::span<const float> values) {
  Bytes encoded;
  AppendArrayHead(encoded, GgufType::kFloat32, values.size());
  AppendBytes(encoded, values.data(), values.size_bytes());
  SetEncoded(key, std::move(encoded));
}

void GgufWriter::Set(std::string_view key, const GgufValue& value) {
  Bytes encoded;
  if (const GgufArray* array = value.AsArray()) {
    AppendArrayHead(encoded, array->element_type, array->size);
    AppendBytes(encoded, array->bytes.data(), array->bytes.size());
    for (const std::string_view text : array->strings) AppendString(encoded, text);
  } else {
    AppendType(encoded, value.type());
    AppendScalar(encoded, value);
  }
  SetEncoded(key, std::move(encoded));
}

void GgufWriter::Remove(std::string_view key) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.key == key; });
}

Result<void> GgufWriter::AddTensor(const GgufTensorSpec& spec) {
  const std::string name = QuoteForMessage(spec.name);
  if (spec.name.empty() || spec.name.size() > GgufLimits::kMaxTensorNameBytes) {
    return Fail(ErrorCode::kInvalid, fmt::format("a tensor's name must have 1 to {} bytes: {}",
                                                 GgufLimits::kMaxTensorNameBytes, name));
  }
  if (spec.dims.empty() || spec.dims.size() > GgufLimits::kMaxDims) {
    return Fail(ErrorCode::kInvalid, fmt::format("tensor {} must have 1 to {} dimensions: {}", name,
                                                 GgufLimits::kMaxDims, spec.dims.size()));
  }
  const std::optional<uint64_t> row_bytes = RowBytes(spec.type, spec.dims[0]);
  if (!row_bytes) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("rows of tensor {} are not whole blocks of type {}: {} elements", name,
                            DTypeName(spec.type), spec.dims[0]));
  }
  uint64_t byte_size = *row_bytes;
  for (size_t d = 1; d < spec.dims.size(); ++d) {
    if (__builtin_mul_overflow(byte_size, spec.dims[d], &byte_size)) byte_size = UINT64_MAX;
  }
  constexpr uint64_t kMaxDataBytes = uint64_t{1} << 48;
  if (byte_size == 0 || byte_size > kMaxDataBytes || data_bytes_ > kMaxDataBytes) {
    return Fail(ErrorCode::kInvalid, fmt::format("tensor {} is empty or too large: shape [{}]",
                                                 name, fmt::join(spec.dims, ", ")));
  }
  tensors_.push_back({.spec = spec, .byte_size = byte_size, .data_offset = data_bytes_});
  const uint64_t alignment = options_.alignment;
  data_bytes_ += (byte_size + alignment - 1) / alignment * alignment;
  return {};
}

Bytes GgufWriter::EncodeHeader() const {
  Bytes header;
  AppendBytes(header, "GGUF", 4);
  Append(header, options_.version);
  Append(header, uint64_t{tensors_.size()});
  Append(header, uint64_t{entries_.size()});
  for (const Entry& entry : entries_) {
    AppendString(header, entry.key);
    AppendBytes(header, entry.value.data(), entry.value.size());
  }
  for (const Tensor& tensor : tensors_) {
    AppendString(header, tensor.spec.name);
    Append(header, static_cast<uint32_t>(tensor.spec.dims.size()));
    for (const uint64_t dim : tensor.spec.dims) Append(header, dim);
    Append(header, static_cast<uint32_t>(tensor.spec.type));
    Append(header, tensor.data_offset);
  }
  Pad(header, options_.alignment);
  return header;
}

Result<void> GgufWriter::Emit(const Fill& fill, const Sink& sink) const {
  if (const auto ok = sink(EncodeHeader()); !ok) return ok;
  Bytes piece;
  for (size_t index = 0; index < tensors_.size(); ++index) {
    const Tensor& tensor = tensors_[index];
    const uint64_t block_bytes = TraitsOf(tensor.spec.type).block_bytes;
    const uint64_t step = kPieceBytes / block_bytes * block_bytes;
    for (uint64_t offset = 0; offset < tensor.byte_size; offset += step) {
      piece.assign(std::min(step, tensor.byte_size - offset), std::byte{0});
      const auto filled = fill(Piece{.index = index, .offset = offset, .out = piece});
      if (!filled) return filled;
      const bool last = offset + step >= tensor.byte_size;
      if (last) {
        const uint64_t end = tensor.data_offset + tensor.byte_size;
        const uint64_t alignment = options_.alignment;
        const uint64_t padded = (end + alignment - 1) / alignment * alignment;
        piece.resize(piece.size() + (padded - end));
      }
      if (const auto ok = sink(piece); !ok) return ok;
    }
  }
  return {};
}

Result<void> GgufWriter::WriteFile(const std::string& path, const Fill& fill) const {
  const std::string partial = path + ".partial";
  FileSink file(partial);
  auto result = Emit(fill, [&](std::span<const std::byte> bytes) { return file.Write(bytes); });
  if (const auto closed = file.Close(); result && !closed) result = Forward(closed);
  if (result && std::rename(partial.c_str(), path.c_str()) != 0) {
    result = Fail(ErrorCode::kInternal, fmt::format("{}: cannot be written: {}", path,
                                                    std::generic_category().message(errno)));
  }
  if (!result) std::remove(partial.c_str());
  return result;
}

Result<Bytes> GgufWriter::ToBytes(const Fill& fill) const {
  Bytes image;
  const auto result = Emit(fill, [&](std::span<const std::byte> bytes) -> Result<void> {
    AppendBytes(image, bytes.data(), bytes.size());
    return {};
  });
  if (!result) return Forward(result);
  return image;
}

}  // namespace baton
