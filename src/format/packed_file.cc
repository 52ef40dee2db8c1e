#include "format/packed_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/shell_text.h"

namespace baton {
namespace {

constexpr uint64_t kMagic = 0x4b41504e4f544142;  // "BATONPAK"
constexpr uint32_t kFormatVersion = 1;
constexpr uint64_t kPageBytes = 4096;
// How much of the beginning and of the end of a tensor goes into the fingerprint.
constexpr uint64_t kSampleBytes = 2048;

struct FileHeader {
  uint64_t magic;
  uint32_t format_version;
  uint32_t layout_version;
  Hash128 source;
  uint64_t file_bytes;
  uint32_t num_entries;
  uint32_t reserved;
  uint64_t reserved_too;
  uint64_t checksum;  // of the header before it and of the table
};
static_assert(sizeof(FileHeader) == 64);

static_assert(sizeof(PackedEntry) == 48 && std::is_trivially_copyable_v<PackedEntry>);

uint64_t TableChecksum(const FileHeader& header, std::span<const PackedEntry> entries) {
  const uint64_t of_header =
      Checksum64(std::as_bytes(std::span(&header, 1)).first(offsetof(FileHeader, checksum)));
  return Checksum64(std::as_bytes(entries), of_header);
}

uint64_t ToPage(uint64_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

// Before the matrices are zeros, and behind each up to the next page.
bool IsZero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

bool IsPacked(std::string_view head) {
  uint64_t magic = 0;
  if (head.size() < sizeof(magic)) return false;
  std::memcpy(&magic, head.data(), sizeof(magic));
  return magic == kMagic;
}

constexpr FileKind kPackedKind = {.name = "a packed model", .holds = IsPacked};

// An error about the packed file at `path`, with what to do about it.
tl::unexpected<Error> RefusePacked(ErrorCode code, const std::string& path,
                                   const std::string& why) {
  const std::string_view model = std::string_view(path).substr(0, path.rfind('.'));
  return Fail(code, fmt::format("{}: {}; delete it, make it anew (baton pack {}), or go without "
                                "(--no-packed)",
                                path, why, ShellPath(model)));
}

// The same about one that cannot be mapped, whose message gives the advice for models.
tl::unexpected<Error> RefuseUnmapped(const std::string& path, const Error& error) {
  std::string why = error.message.substr(error.message.starts_with(path) ? path.size() + 2 : 0);
  why = why.substr(0, why.find("; "));
  return RefusePacked(error.code, path, why);
}

}  // namespace

Hash128 FingerprintOf(const GgufFile& file) {
  Hasher hasher;
  hasher.Add(file.tensors().size());
  for (const GgufTensor& tensor : file.tensors()) {
    hasher.Add(tensor.name).Add(static_cast<uint64_t>(tensor.type)).Add(tensor.dims.size());
    for (const uint64_t dim : tensor.dims) hasher.Add(dim);
    hasher.Add(tensor.part).Add(tensor.file_offset);
    const std::span<const std::byte> bytes(tensor.data, tensor.byte_size);
    const uint64_t sample = std::min(tensor.byte_size, kSampleBytes);
    hasher.Add(bytes.first(sample)).Add(bytes.last(sample));
  }
  return hasher.Finish();
}

std::string PackedPathOf(const GgufFile& file) {
  return file.part_paths().front() + ".packed";
}

Result<PackedFile> PackedFile::Open(const std::string& path, const Expected& expected) {
  Result<MappedFile> mapped = MappedFile::Open(path);
  if (!mapped && mapped.error().code == ErrorCode::kNotFound) return Forward(mapped);
  if (!mapped) return RefuseUnmapped(path, mapped.error());
  const auto refuse = [&path](ErrorCode code, const std::string& why) {
    return RefusePacked(code, path, why);
  };
  const std::span<const std::byte> bytes = mapped->bytes();
  FileHeader header{};
  if (bytes.size() >= sizeof(header)) std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != kMagic) {
    return refuse(ErrorCode::kInvalid, "is not a packed model");
  }
  if (header.format_version != kFormatVersion || header.layout_version != expected.layout_version) {
    return refuse(ErrorCode::kInvalid,
                  fmt::format("was packed by another version of Baton (format {}.{}, this one "
                              "reads {}.{})",
                              header.format_version, header.layout_version, kFormatVersion,
                              expected.layout_version));
  }
  const uint64_t table_bytes = uint64_t{header.num_entries} * sizeof(PackedEntry);
  if (header.file_bytes != bytes.size()) {
    return refuse(ErrorCode::kCorrupt, fmt::format("is damaged: it has {} bytes and says {}",
                                                   bytes.size(), header.file_bytes));
  }
  if (header.num_entries > kMaxEntries || table_bytes > bytes.size() - sizeof(header)) {
    return refuse(ErrorCode::kCorrupt,
                  fmt::format("is damaged: it has {} bytes and says that {} matrices are in it",
                              bytes.size(), header.num_entries));
  }
  std::vector<PackedEntry> table(header.num_entries);
  std::memcpy(table.data(), bytes.data() + sizeof(header), table_bytes);
  if (TableChecksum(header, table) != header.checksum) {
    return refuse(ErrorCode::kCorrupt, "is damaged: the checksum of its table is wrong");
  }
  if (header.source != expected.source) {
    return refuse(ErrorCode::kInvalid, "is stale: it was made from another model file");
  }
  const uint64_t end_of_table = sizeof(header) + table_bytes;
  const uint64_t first_matrix = std::min<uint64_t>(ToPage(end_of_table), bytes.size());
  if (!IsZero(bytes.subspan(end_of_table, first_matrix - end_of_table))) {
    return refuse(ErrorCode::kCorrupt, "is damaged: behind its table is something");
  }
  for (const PackedEntry& entry : table) {
    if (entry.offset % kPageBytes != 0 || entry.offset > bytes.size() ||
        entry.num_bytes > bytes.size() - entry.offset) {
      return refuse(ErrorCode::kCorrupt,
                    fmt::format("is damaged: a matrix of {} bytes at {} lies outside the file",
                                entry.num_bytes, entry.offset));
    }
  }
  PackedFile file;
  file.path_ = path;
  file.entries_ = std::move(table);
  std::sort(file.entries_.begin(), file.entries_.end(),
            [](const PackedEntry& a, const PackedEntry& b) { return a.key < b.key; });
  file.file_ = *std::move(mapped);
  return file;
}

std::optional<std::span<const std::byte>> PackedFile::Find(const Hash128& key) const {
  const auto at =
      std::lower_bound(entries_.begin(), entries_.end(), key,
                       [](const PackedEntry& a, const Hash128& b) { return a.key < b; });
  if (at == entries_.end() || at->key != key) return std::nullopt;
  return file_.bytes().subspan(at->offset, at->num_bytes);
}

Result<> PackedFile::CheckEntry(size_t i) const {
  CHECK_LT(i, entries_.size());
  const PackedEntry& entry = entries_[i];
  const uint64_t end = entry.offset + entry.num_bytes;
  const uint64_t end_of_page = std::min<uint64_t>(ToPage(end), file_.bytes().size());
  if (Checksum64(file_.bytes().subspan(entry.offset, entry.num_bytes)) != entry.checksum) {
    return Refuse(
        ErrorCode::kCorrupt,
        fmt::format("is damaged: the checksum of bytes {} to {} is wrong", entry.offset, end));
  }
  if (!IsZero(file_.bytes().subspan(end, end_of_page - end))) {
    return Refuse(
        ErrorCode::kCorrupt,
        fmt::format("is damaged: between bytes {} and {} is something", end, end_of_page));
  }
  return {};
}

tl::unexpected<Error> PackedFile::Refuse(ErrorCode code, const std::string& why) const {
  return RefusePacked(code, path_, why);
}

PackedWriter::PackedWriter(ReplacingFile file, const PackedFile::Expected& about,
                           uint32_t num_entries)
    : file_(std::move(file)),
      about_(about),
      num_entries_(num_entries),
      end_(ToPage(sizeof(FileHeader) + num_entries * sizeof(PackedEntry))) {}

Result<PackedWriter> PackedWriter::Create(const std::string& path,
                                          const PackedFile::Expected& about, uint32_t num_entries) {
  CHECK_GE(num_entries, 1u);
  CHECK_LE(num_entries, PackedFile::kMaxEntries);
  Result<ReplacingFile> file = ReplacingFile::Create(path, kPackedKind);
  if (!file) return Forward(file);
  return PackedWriter(*std::move(file), about, num_entries);
}

Result<> PackedWriter::Add(const Hash128& key, std::span<const std::byte> bytes) {
  CHECK_LT(entries_.size(), num_entries_);
  if (Result<> written = file_.WriteAt(end_, bytes); !written) return written;
  entries_.push_back({.key = key,
                      .offset = end_,
                      .num_bytes = bytes.size(),
                      .checksum = Checksum64(bytes),
                      .reserved = 0});
  end_ = ToPage(end_ + bytes.size());
  return {};
}

Result<> PackedWriter::Finish() {
  CHECK_EQ(entries_.size(), num_entries_);
  FileHeader header{.magic = kMagic,
                    .format_version = kFormatVersion,
                    .layout_version = about_.layout_version,
                    .source = about_.source,
                    .file_bytes = end_,
                    .num_entries = num_entries_,
                    .reserved = 0,
                    .reserved_too = 0,
                    .checksum = 0};
  header.checksum = TableChecksum(header, entries_);
  const auto table = std::as_bytes(std::span(entries_));
  if (Result<> written = file_.WriteAt(sizeof(header), table); !written) return written;
  const auto head = std::as_bytes(std::span(&header, 1));
  if (Result<> written = file_.WriteAt(0, head); !written) return written;
  return file_.Finish(end_);
}

}  // namespace baton
