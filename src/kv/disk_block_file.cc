#include "kv/disk_block_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/check.h"

namespace baton {
namespace {

constexpr uint64_t kMagic = 0x314b4c424e544142;  // "BATNBLK1"
constexpr uint64_t kAlignment = 64;

struct FileHeader {
  uint64_t magic;
  Hash128 key;
  Hash128 name;
  uint32_t record_version;
  uint32_t num_layers;
  uint32_t num_kv_heads;
  uint32_t head_dim;
  uint64_t block_bytes;
  uint64_t num_tokens;
  uint64_t file_bytes;
  uint64_t kv_type;
  uint64_t reserved[2];
  uint64_t tokens_checksum;  // of the tokens and the zeros behind them
  uint64_t block_checksum;
  uint64_t header_checksum;  // of all before it
};
static_assert(sizeof(FileHeader) == 128);

std::span<const std::byte> BytesOf(const FileHeader& header) {
  return std::as_bytes(std::span(&header, 1));
}

uint64_t ChecksumOf(const FileHeader& header) {
  return Checksum64(BytesOf(header).first(offsetof(FileHeader, header_checksum)));
}

// Tokens and zeros, in bytes.
uint64_t TokenAreaBytes(uint64_t num_tokens) {
  return (num_tokens * sizeof(TokenId) + kAlignment - 1) / kAlignment * kAlignment;
}

FileHeader HeaderOf(const DiskBlockKind& kind, const DiskBlockId& id) {
  const KvShape& shape = kind.layout.shape();
  return {.magic = kMagic,
          .key = kind.key,
          .name = id.name,
          .record_version = kKvRecordVersion,
          .num_layers = static_cast<uint32_t>(shape.num_layers),
          .num_kv_heads = static_cast<uint32_t>(shape.num_kv_heads),
          .head_dim = static_cast<uint32_t>(shape.head_dim),
          .block_bytes = kind.layout.block_bytes(),
          .num_tokens = id.tokens.size(),
          .file_bytes = DiskBlockFileBytes(kind, id.tokens.size()),
          .kv_type = static_cast<uint64_t>(shape.type),
          .reserved = {},
          .tokens_checksum = 0,
          .block_checksum = 0,
          .header_checksum = 0};
}

// The token area in pieces, which its checksum is chained over.
constexpr uint64_t kPieceBytes = 4096;
using Piece = std::array<std::byte, kPieceBytes>;

// The piece of the token area that begins at `offset`.
std::span<const std::byte> PieceOf(std::span<const TokenId> tokens, uint64_t offset, Piece& piece) {
  const std::span<const std::byte> bytes = std::as_bytes(tokens);
  const uint64_t length = std::min(kPieceBytes, TokenAreaBytes(tokens.size()) - offset);
  const uint64_t filled = std::min<uint64_t>(length, bytes.size() - std::min(bytes.size(), offset));
  std::fill_n(piece.begin(), length, std::byte{0});
  if (filled > 0) std::memcpy(piece.data(), bytes.data() + offset, filled);
  return std::span(piece).first(length);
}

Result<> WriteAt(int descriptor, uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count =
        ::pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return Fail(ErrorCode::kInternal, "a block cannot be written to the disk: " +
                                            std::generic_category().message(errno));
    }
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
  return {};
}

DiskBlockRead ReadAt(int descriptor, uint64_t offset, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count =
        ::pread(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return DiskBlockRead::kUnreadable;
    if (count == 0) return DiskBlockRead::kDamaged;
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
  return DiskBlockRead::kGood;
}

// Whether the tokens of the file are undamaged, and the expected ones.
DiskBlockRead CompareTokens(const ReadDiskBlockArgs& args, uint64_t checksum) {
  uint64_t found_checksum = 0;
  bool equal = true;
  Piece expected_memory;
  Piece found_memory;
  for (uint64_t at = 0; at < TokenAreaBytes(args.id.tokens.size()); at += kPieceBytes) {
    const auto expected = PieceOf(args.id.tokens, at, expected_memory);
    const auto found = std::span(found_memory).first(expected.size());
    const DiskBlockRead read = ReadAt(args.descriptor, sizeof(FileHeader) + at, found);
    if (read != DiskBlockRead::kGood) return read;
    found_checksum = Checksum64(found, found_checksum);
    equal = equal && std::ranges::equal(found, expected);
  }
  if (found_checksum != checksum) return DiskBlockRead::kDamaged;
  return equal ? DiskBlockRead::kGood : DiskBlockRead::kDiffers;
}

// Whether two headers are of one kind.
bool SameKind(const FileHeader& a, const FileHeader& b) {
  return a.key == b.key && a.record_version == b.record_version && a.num_layers == b.num_layers &&
         a.num_kv_heads == b.num_kv_heads && a.head_dim == b.head_dim &&
         a.block_bytes == b.block_bytes && a.kv_type == b.kv_type &&
         std::ranges::equal(a.reserved, b.reserved);
}

}  // namespace

uint64_t DiskBlockFileBytes(const DiskBlockKind& kind, uint64_t num_tokens) {
  return sizeof(FileHeader) + TokenAreaBytes(num_tokens) + kind.layout.block_bytes();
}

Result<> WriteDiskBlock(const WriteDiskBlockArgs& args) {
  CHECK_EQ(args.bytes.size(), args.kind.layout.block_bytes());
  FileHeader header = HeaderOf(args.kind, args.id);
  const uint64_t area_bytes = TokenAreaBytes(args.id.tokens.size());
  Piece memory;
  for (uint64_t at = 0; at < area_bytes; at += kPieceBytes) {
    const auto piece = PieceOf(args.id.tokens, at, memory);
    header.tokens_checksum = Checksum64(piece, header.tokens_checksum);
    const Result<> written = WriteAt(args.descriptor, sizeof(header) + at, piece);
    if (!written) return written;
  }
  header.block_checksum = Checksum64(args.bytes);
  header.header_checksum = ChecksumOf(header);
  const Result<> written = WriteAt(args.descriptor, sizeof(header) + area_bytes, args.bytes);
  if (!written) return written;
  return WriteAt(args.descriptor, 0, BytesOf(header));
}

DiskBlockRead ReadDiskBlock(const ReadDiskBlockArgs& args) {
  CHECK_EQ(args.bytes.size(), args.kind.layout.block_bytes());
  FileHeader header{};
  DiskBlockRead read = ReadAt(args.descriptor, 0, std::as_writable_bytes(std::span(&header, 1)));
  if (read != DiskBlockRead::kGood) return read;
  struct stat status {};
  if (::fstat(args.descriptor, &status) != 0) return DiskBlockRead::kUnreadable;
  if (header.magic != kMagic || header.header_checksum != ChecksumOf(header) ||
      header.file_bytes != static_cast<uint64_t>(status.st_size) || header.name != args.id.name) {
    return DiskBlockRead::kDamaged;
  }
  const FileHeader expected = HeaderOf(args.kind, args.id);
  if (!SameKind(header, expected) || header.num_tokens != expected.num_tokens) {
    return DiskBlockRead::kDiffers;
  }
  if (header.file_bytes != expected.file_bytes) return DiskBlockRead::kDamaged;
  read = CompareTokens(args, header.tokens_checksum);
  if (read != DiskBlockRead::kGood) return read;
  const uint64_t block_at = sizeof(header) + TokenAreaBytes(args.id.tokens.size());
  read = ReadAt(args.descriptor, block_at, args.bytes);
  if (read != DiskBlockRead::kGood) return read;
  return Checksum64(args.bytes) == header.block_checksum ? DiskBlockRead::kGood
                                                         : DiskBlockRead::kDamaged;
}

}  // namespace baton
