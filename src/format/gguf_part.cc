#include "format/gguf_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "format/byte_reader.h"

namespace baton {
namespace {

constexpr uint32_t kMagic = 0x46554747;          // "GGUF" in file order
constexpr uint32_t kReversedMagic = 0x47475546;  // "FUGG"
// The fewest bytes that a key with its value and a tensor's entry take.
constexpr uint64_t kMinKeyValueBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorInfoBytes = 8 + 1 + 4 + 8 + 4 + 8;

// A tensor's entry as the file has it, with the place of the entry for messages.
struct TensorInfo {
  uint64_t entry_offset = 0;
  std::string_view name;
  DType type = DType::kF32;
  std::vector<uint64_t> dims;
  uint64_t byte_size = 0;
  uint64_t data_offset = 0;  // from the start of the data section
};

bool HasControlCharacter(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
}

class PartParser {
 public:
  PartParser(std::span<const std::byte> image, const std::string& name)
      : image_(image), reader_(image, name) {}

  Result<GgufPart> Parse();

 private:
  struct Counts {
    uint64_t tensors = 0;
    uint64_t keys = 0;
  };

  Result<void> ReadMagicAndVersion();
  Result<Counts> ReadCounts();
  Result<uint64_t> ReadCount(std::string_view what, uint64_t limit, uint64_t min_entry_bytes);
  Result<void> ReadMetadata(uint64_t count);
  Result<GgufType> ReadType(std::string_view key);
  Result<GgufValue> ReadValue(std::string_view key, GgufType type);
  Result<GgufValue> ReadArray(std::string_view key);
  Result<void> CheckBools(std::string_view key, std::span<const std::byte> bytes);
  Result<void> SortKeys();
  Result<void> ReadAlignment();
  Result<TensorInfo> ReadTensorInfo();
  Result<void> ReadShape(TensorInfo& info);
  Result<void> ReadDType(TensorInfo& info);
  Result<void> PlaceTensors(const std::vector<TensorInfo>& infos);
  Result<void> CheckOverlap(const std::vector<TensorInfo>& infos);
  Result<void> CheckEnd(uint64_t end_of_data);

  std::span<const std::byte> image_;
  ByteReader reader_;
  GgufPart part_;
};

Result<GgufPart> PartParser::Parse() {
  if (const auto ok = ReadMagicAndVersion(); !ok) return Forward(ok);
  const Result<Counts> counts = ReadCounts();
  if (!counts) return Forward(counts);
  if (const auto ok = ReadMetadata(counts->keys); !ok) return Forward(ok);
  if (const auto ok = SortKeys(); !ok) return Forward(ok);
  if (const auto ok = ReadAlignment(); !ok) return Forward(ok);
  std::vector<TensorInfo> infos;
  infos.reserve(counts->tensors);  // ReadCount bounds it by the file's size
  for (uint64_t i = 0; i < counts->tensors; ++i) {
    Result<TensorInfo> info = ReadTensorInfo();
    if (!info) return Forward(info);
    infos.push_back(*std::move(info));
  }
  if (const auto ok = PlaceTensors(infos); !ok) return Forward(ok);
  return std::move(part_);
}

Result<void> PartParser::ReadMagicAndVersion() {
  const Result<uint32_t> magic = reader_.Read<uint32_t>("the magic number");
  if (!magic) return Forward(magic);
  if (*magic != kMagic && *magic != kReversedMagic) {
    const std::string_view found(reinterpret_cast<const char*>(image_.data()), 4);
    if (found == "BATO") {
      return reader_.FailAt(0, ErrorCode::kInvalid,
                            "is made by Baton from a model file (packed weights, or a saved "
                            "cache); name the model file itself");
    }
    return reader_.FailAt(0, ErrorCode::kInvalid,
                          fmt::format("not a GGUF file: it starts with {} instead of \"GGUF\"; "
                                      "give a model converted to GGUF",
                                      QuoteForMessage(found)));
  }
  const Result<uint32_t> version = reader_.Read<uint32_t>("the version");
  if (!version) return Forward(version);
  const uint32_t swapped = __builtin_bswap32(*version);
  if (*magic == kReversedMagic || ((*version & 0xffff) == 0 && swapped >= 1 && swapped <= 16)) {
    return reader_.FailAt(4, ErrorCode::kInvalid,
                          "the file is big-endian (its bytes are in reversed order): convert the "
                          "model anew without the big-endian option");
  }
  if (*version == 1) {
    return reader_.FailAt(4, ErrorCode::kInvalid,
                          "GGUF version 1 is not supported, 2 and 3 are: convert the model anew");
  }
  if (*version != 2 && *version != 3) {
    return reader_.FailAt(4, ErrorCode::kInvalid,
                          fmt::format("unknown GGUF version, 2 and 3 are supported: {}", *version));
  }
  part_.version = *version;
  return {};
}

Result<PartParser::Counts> PartParser::ReadCounts() {
  const Result<uint64_t> tensors =
      ReadCount("number of tensors", GgufLimits::kMaxTensors, kMinTensorInfoBytes);
  if (!tensors) return Forward(tensors);
  const Result<uint64_t> keys =
      ReadCount("number of metadata keys", GgufLimits::kMaxKeys, kMinKeyValueBytes);
  if (!keys) return Forward(keys);
  return Counts{.tensors = *tensors, .keys = *keys};
}

Result<uint64_t> PartParser::ReadCount(std::string_view what, uint64_t limit,
                                       uint64_t min_entry_bytes) {
  const uint64_t offset = reader_.position();
  const Result<uint64_t> count = reader_.Read<uint64_t>(what);
  if (!count) return count;
  if (*count > limit) {
    return reader_.Corrupt(offset,
                           fmt::format("{} is over the limit: {}, limit {}", what, *count, limit));
  }
  if (*count > reader_.remaining() / min_entry_bytes) {
    return reader_.Corrupt(offset, fmt::format("{} does not fit in the file: {}, {} bytes left",
                                               what, *count, reader_.remaining()));
  }
  return count;
}

Result<void> PartParser::ReadMetadata(uint64_t count) {
  part_.metadata.reserve(count);  // ReadCount bounds it by the file's size
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t offset = reader_.position();
    const Result<std::string_view> key =
        reader_.ReadString(GgufLimits::kMaxKeyBytes, "a metadata key");
    if (!key) return Forward(key);
    if (key->empty() || HasControlCharacter(*key)) {
      return reader_.Corrupt(
          offset, "a metadata key is empty or has control characters: " + QuoteForMessage(*key));
    }
    const Result<GgufType> type = ReadType(*key);
    if (!type) return Forward(type);
    Result<GgufValue> value = ReadValue(*key, *type);
    if (!value) return Forward(value);
    part_.metadata.push_back({.key = *key, .value = *std::move(value)});
  }
  return {};
}

Result<GgufType> PartParser::ReadType(std::string_view key) {
  const uint64_t offset = reader_.position();
  const Result<uint32_t> id = reader_.Read<uint32_t>("a value's type");
  if (!id) return Forward(id);
  const std::optional<GgufType> type = GgufTypeFromId(*id);
  if (!type) {
    return reader_.Corrupt(
        offset, fmt::format("key {} has an unknown value type: {}", QuoteForMessage(key), *id));
  }
  return *type;
}

Result<GgufValue> PartParser::ReadValue(std::string_view key, GgufType type) {
  if (type == GgufType::kArray) return ReadArray(key);
  const std::string what = "the value of " + QuoteForMessage(key);
  if (type == GgufType::kString) {
    const Result<std::string_view> text = reader_.ReadString(GgufLimits::kMaxStringBytes, what);
    if (!text) return Forward(text);
    return GgufValue(type, *text);
  }
  const auto bytes = reader_.ReadBytes(GgufScalarBytes(type), what);
  if (!bytes) return Forward(bytes);
  if (type == GgufType::kBool) {
    if (const auto ok = CheckBools(key, *bytes); !ok) return Forward(ok);
  }
  return ReadGgufScalar(type, bytes->data());
}

Result<GgufValue> PartParser::ReadArray(std::string_view key) {
  const uint64_t offset = reader_.position();
  const Result<GgufType> type = ReadType(key);
  if (!type) return Forward(type);
  if (*type == GgufType::kArray) {
    return reader_.FailAt(
        offset, ErrorCode::kInvalid,
        "arrays of arrays are not supported, found in key " + QuoteForMessage(key));
  }
  const std::string what = "the array " + QuoteForMessage(key);
  const uint64_t count_offset = reader_.position();
  const Result<uint64_t> count = reader_.Read<uint64_t>(what);
  if (!count) return Forward(count);
  const bool strings = *type == GgufType::kString;
  const uint64_t element_bytes = strings ? sizeof(uint64_t) : GgufScalarBytes(*type);
  if (*count > GgufLimits::kMaxArrayElements || *count > reader_.remaining() / element_bytes) {
    return reader_.Corrupt(
        count_offset, fmt::format("{} does not fit: {} elements, {} bytes left, limit {}", what,
                                  *count, reader_.remaining(), GgufLimits::kMaxArrayElements));
  }
  GgufArray array;
  array.element_type = *type;
  array.size = *count;
  if (!strings) {
    const auto bytes = reader_.ReadBytes(*count * element_bytes, what);
    if (!bytes) return Forward(bytes);
    array.bytes = *bytes;
    if (*type == GgufType::kBool) {
      if (const auto ok = CheckBools(key, *bytes); !ok) return Forward(ok);
    }
    return GgufValue(GgufType::kArray, std::move(array));
  }
  array.strings.reserve(*count);
  for (uint64_t i = 0; i < *count; ++i) {
    const Result<std::string_view> text = reader_.ReadString(GgufLimits::kMaxStringBytes, what);
    if (!text) return Forward(text);
    array.strings.push_back(*text);
  }
  return GgufValue(GgufType::kArray, std::move(array));
}

Result<void> PartParser::CheckBools(std::string_view key, std::span<const std::byte> bytes) {
  for (const std::byte& byte : bytes) {
    if (std::to_integer<int>(byte) > 1) {
      return reader_.Corrupt(static_cast<uint64_t>(&byte - image_.data()),
                             fmt::format("key {} has a truth value that is neither 0 nor 1: {}",
                                         QuoteForMessage(key), std::to_integer<int>(byte)));
    }
  }
  return {};
}

Result<void> PartParser::SortKeys() {
  auto& order = part_.metadata_by_key;
  const auto& metadata = part_.metadata;
  order.resize(metadata.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return metadata[a].key < metadata[b].key; });
  for (size_t i = 1; i < order.size(); ++i) {
    const std::string_view key = metadata[order[i]].key;
    if (key == metadata[order[i - 1]].key) {
      const auto* place = reinterpret_cast<const std::byte*>(key.data());
      return reader_.Corrupt(static_cast<uint64_t>(place - image_.data()),
                             "a metadata key occurs twice: " + QuoteForMessage(key));
    }
  }
  return {};
}

Result<void> PartParser::ReadAlignment() {
  part_.alignment = GgufLimits::kDefaultAlignment;
  const GgufValue* value = part_.Find("general.alignment");
  if (value == nullptr) return {};
  const std::optional<uint64_t> alignment = value->AsUint64();
  if (!alignment || !std::has_single_bit(*alignment) || *alignment < GgufLimits::kMinAlignment ||
      *alignment > GgufLimits::kMaxAlignment) {
    return reader_.Corrupt(
        reader_.position(),
        fmt::format("general.alignment must be a power of two from {} to {}, it is {}",
                    GgufLimits::kMinAlignment, GgufLimits::kMaxAlignment,
                    alignment ? std::to_string(*alignment) : GgufTypeName(value->type())));
  }
  part_.alignment = static_cast<uint32_t>(*alignment);
  return {};
}

Result<TensorInfo> PartParser::ReadTensorInfo() {
  TensorInfo info;
  info.entry_offset = reader_.position();
  const Result<std::string_view> name =
      reader_.ReadString(GgufLimits::kMaxTensorNameBytes, "a tensor's name");
  if (!name) return Forward(name);
  if (name->empty() || HasControlCharacter(*name)) {
    return reader_.Corrupt(
        info.entry_offset,
        "a tensor's name is empty or has control characters: " + QuoteForMessage(*name));
  }
  info.name = *name;
  if (const auto ok = ReadShape(info); !ok) return Forward(ok);
  if (const auto ok = ReadDType(info); !ok) return Forward(ok);
  const Result<uint64_t> offset = reader_.Read<uint64_t>("a tensor's data offset");
  if (!offset) return Forward(offset);
  info.data_offset = *offset;
  return info;
}

Result<void> PartParser::ReadShape(TensorInfo& info) {
  const uint64_t offset = reader_.position();
  const Result<uint32_t> num_dims = reader_.Read<uint32_t>("a tensor's number of dimensions");
  if (!num_dims) return Forward(num_dims);
  if (*num_dims == 0 || *num_dims > GgufLimits::kMaxDims) {
    return reader_.Corrupt(
        offset, fmt::format("tensor {} must have 1 to {} dimensions, it has {}",
                            QuoteForMessage(info.name), GgufLimits::kMaxDims, *num_dims));
  }
  for (uint32_t d = 0; d < *num_dims; ++d) {
    const uint64_t dim_offset = reader_.position();
    const Result<int64_t> dim = reader_.Read<int64_t>("a tensor's dimensions");
    if (!dim) return Forward(dim);
    if (*dim <= 0) {
      return reader_.Corrupt(dim_offset, fmt::format("tensor {} has a dimension below 1: {}",
                                                     QuoteForMessage(info.name), *dim));
    }
    info.dims.push_back(static_cast<uint64_t>(*dim));
  }
  return {};
}

Result<void> PartParser::ReadDType(TensorInfo& info) {
  const uint64_t offset = reader_.position();
  const std::string name = QuoteForMessage(info.name);
  const Result<uint32_t> id = reader_.Read<uint32_t>("a tensor's type");
  if (!id) return Forward(id);
  const std::optional<DType> type = DTypeFromGgufId(*id);
  if (!type) {
    if (const auto withdrawn = WithdrawnDTypeName(*id)) {
      return reader_.FailAt(offset, ErrorCode::kInvalid,
                            fmt::format("tensor {} has a type that the format withdrew: {} ({}); "
                                        "quantize the model anew",
                                        name, *withdrawn, *id));
    }
    return reader_.FailAt(
        offset, ErrorCode::kInvalid,
        fmt::format("tensor {} has a type that this version of Baton does not know: {}", name,
                    *id));
  }
  info.type = *type;
  std::optional<uint64_t> bytes = RowBytes(*type, info.dims[0]);
  if (!bytes) {
    return reader_.Corrupt(
        offset, fmt::format("tensor {} has rows that are not whole blocks of "
                            "type {}: {} elements, block {}",
                            name, DTypeName(*type), info.dims[0], TraitsOf(*type).block_elements));
  }
  uint64_t size = *bytes;
  for (size_t d = 1; d < info.dims.size(); ++d) {
    if (__builtin_mul_overflow(size, info.dims[d], &size)) size = UINT64_MAX;
    if (size > image_.size()) break;
  }
  if (size > image_.size()) {
    return reader_.Corrupt(
        offset, fmt::format("tensor {} is larger than the file: shape [{}] as {}, file {} "
                            "bytes",
                            name, fmt::join(info.dims, ", "), DTypeName(*type), image_.size()));
  }
  info.byte_size = size;
  return {};
}

Result<void> PartParser::PlaceTensors(const std::vector<TensorInfo>& infos) {
  const uint64_t header_end = reader_.position();
  part_.header = image_.first(header_end);
  // No overflow: a file's size and an alignment are far below 2^63.
  const uint64_t data_start =
      (header_end + part_.alignment - 1) / part_.alignment * part_.alignment;
  uint64_t end_of_data = header_end;
  part_.tensors.reserve(infos.size());
  for (const TensorInfo& info : infos) {
    const std::string name = QuoteForMessage(info.name);
    if (info.data_offset % part_.alignment != 0) {
      return reader_.Corrupt(info.entry_offset,
                             fmt::format("tensor {} is not aligned: offset {}, alignment {}", name,
                                         info.data_offset, part_.alignment));
    }
    if (data_start > image_.size() || info.data_offset > image_.size() - data_start ||
        info.byte_size > image_.size() - data_start - info.data_offset) {
      return reader_.Corrupt(
          info.entry_offset,
          fmt::format("tensor {} reaches past the end of the file: {} bytes at "
                      "offset {} of the data at byte {}, file {} bytes",
                      name, info.byte_size, info.data_offset, data_start, image_.size()));
    }
    const uint64_t file_offset = data_start + info.data_offset;
    end_of_data = std::max(end_of_data, file_offset + info.byte_size);
    part_.tensors.push_back({.name = info.name,
                             .type = info.type,
                             .dims = info.dims,
                             .data = image_.data() + file_offset,
                             .byte_size = info.byte_size,
                             .file_offset = file_offset,
                             .part = 0});
  }
  if (const auto ok = CheckOverlap(infos); !ok) return ok;
  return CheckEnd(end_of_data);
}

Result<void> PartParser::CheckOverlap(const std::vector<TensorInfo>& infos) {
  std::vector<uint32_t> order(infos.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return infos[a].data_offset < infos[b].data_offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const TensorInfo& before = infos[order[i - 1]];
    const TensorInfo& after = infos[order[i]];
    if (before.data_offset + before.byte_size > after.data_offset) {
      return reader_.Corrupt(after.entry_offset,
                             fmt::format("tensors {} and {} overlap: {} bytes at offset {}, then "
                                         "offset {}",
                                         QuoteForMessage(before.name), QuoteForMessage(after.name),
                                         before.byte_size, before.data_offset, after.data_offset));
    }
  }
  return {};
}

// Whoever joins the parts of a split model with `cat` gets a file that looks whole up to here.
Result<void> PartParser::CheckEnd(uint64_t end_of_data) {
  const uint64_t padded = (end_of_data + part_.alignment - 1) / part_.alignment * part_.alignment;
  for (const uint64_t offset : {end_of_data, padded}) {
    if (offset > image_.size() || image_.size() - offset < sizeof(kMagic)) continue;
    uint32_t magic = 0;
    std::memcpy(&magic, image_.data() + offset, sizeof(magic));
    if (magic == kMagic) {
      return reader_.FailAt(offset, ErrorCode::kInvalid,
                            "another GGUF file starts inside this one: the parts of a split model "
                            "must stay separate files, or be merged with a tool for GGUF");
    }
  }
  return {};
}

}  // namespace

const GgufValue* GgufPart::Find(std::string_view key) const {
  const auto found =
      std::lower_bound(metadata_by_key.begin(), metadata_by_key.end(), key,
                       [&](uint32_t i, std::string_view k) { return metadata[i].key < k; });
  if (found == metadata_by_key.end() || metadata[*found].key != key) return nullptr;
  return &metadata[*found].value;
}

Result<GgufPart> ParseGgufPart(std::span<const std::byte> image, const std::string& name) {
  return PartParser(image, name).Parse();
}

}  // namespace baton
