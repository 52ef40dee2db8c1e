#include "format/packed_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/check.h"

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
  uint64_t source_low;
  uint64_t source_high;
  uint64_t file_bytes;
  uint32_t num_entries;
  uint32_t reserved;
  uint64_t reserved_too;
  uint64_t checksum;  // of the header before it and of the table
};
static_assert(sizeof(FileHeader) == 64);

struct FileEntry {
  uint64_t key_low;
  uint64_t key_high;
  uint64_t offset;
  uint64_t num_bytes;
  uint64_t checksum;
  uint64_t reserved;
};
static_assert(sizeof(FileEntry) == 48);

uint64_t TableChecksum(const FileHeader& header, std::span<const FileEntry> entries) {
  const uint64_t of_header = XXH3_64bits(&header, offsetof(FileHeader, checksum));
  return XXH3_64bits_withSeed(entries.data(), entries.size_bytes(), of_header);
}

uint64_t ToPage(uint64_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

bool IsBefore(const PackedKey& a, const PackedKey& b) {
  return a.high != b.high ? a.high < b.high : a.low < b.low;
}

std::string HowToMake() {
  return "make it anew with `baton pack MODEL`, or delete it";
}

// A hash of values one after the other.
class Hash {
 public:
  Hash() { XXH3_128bits_reset(&state_); }
  void Add(const void* bytes, size_t size) { XXH3_128bits_update(&state_, bytes, size); }
  void Add(uint64_t value) { Add(&value, sizeof(value)); }
  PackedKey Key() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(&state_);
    return {.low = hash.low64, .high = hash.high64};
  }

 private:
  alignas(64) XXH3_state_t state_;
};

Error SystemError(const std::string& path, const char* what) {
  return {.code = ErrorCode::kInternal,
          .message = fmt::format("{}: {}: {}", path, what, std::generic_category().message(errno))};
}

}  // namespace

PackedKey PackedKeyOf(std::string_view text) {
  Hash hash;
  hash.Add(text.data(), text.size());
  return hash.Key();
}

PackedKey FingerprintOf(const GgufFile& file) {
  Hash hash;
  hash.Add(file.tensors().size());
  for (const GgufTensor& tensor : file.tensors()) {
    hash.Add(tensor.name.size());
    hash.Add(tensor.name.data(), tensor.name.size());
    hash.Add(static_cast<uint64_t>(tensor.type));
    hash.Add(tensor.dims.size());
    for (const uint64_t dim : tensor.dims) hash.Add(dim);
    hash.Add(tensor.part);
    hash.Add(tensor.file_offset);
    const uint64_t sample = std::min(tensor.byte_size, kSampleBytes);
    hash.Add(tensor.data, sample);
    hash.Add(tensor.data + (tensor.byte_size - sample), sample);
  }
  return hash.Key();
}

std::string PackedPathOf(const GgufFile& file) {
  return file.part_paths().front() + ".packed";
}

Result<PackedFile> PackedFile::Open(const std::string& path, const Expected& expected) {
  Result<MappedFile> mapped = MappedFile::Open(path);
  if (!mapped) return Forward(mapped);
  const std::span<const std::byte> bytes = mapped->bytes();
  FileHeader header{};
  if (bytes.size() >= sizeof(header)) std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != kMagic) {
    return Fail(ErrorCode::kInvalid, path + ": is not a packed model; " + HowToMake());
  }
  if (header.format_version != kFormatVersion || header.layout_version != expected.layout_version) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("{}: was packed by another version of Baton (format {}.{}, this one "
                            "reads {}.{}); {}",
                            path, header.format_version, header.layout_version, kFormatVersion,
                            expected.layout_version, HowToMake()));
  }
  const uint64_t table_bytes = uint64_t{header.num_entries} * sizeof(FileEntry);
  if (header.file_bytes != bytes.size() || header.num_entries > kMaxEntries ||
      table_bytes > bytes.size() - sizeof(header)) {
    return Fail(ErrorCode::kCorrupt, fmt::format("{}: has {} bytes, but says {}; {}", path,
                                                 bytes.size(), header.file_bytes, HowToMake()));
  }
  std::vector<FileEntry> table(header.num_entries);
  std::memcpy(table.data(), bytes.data() + sizeof(header), table_bytes);
  if (TableChecksum(header, table) != header.checksum) {
    return Fail(ErrorCode::kCorrupt, path + ": the checksum of its table is wrong; " + HowToMake());
  }
  if (PackedKey{header.source_low, header.source_high} != expected.source) {
    return Fail(ErrorCode::kInvalid,
                path + ": is stale: it was made from another model file; " + HowToMake());
  }
  PackedFile file;
  file.path_ = path;
  for (const FileEntry& entry : table) {
    if (entry.offset % kPageBytes != 0 || entry.offset > bytes.size() ||
        entry.num_bytes > bytes.size() - entry.offset) {
      return Fail(ErrorCode::kCorrupt,
                  fmt::format("{}: a matrix of {} bytes at {} lies outside the file; {}", path,
                              entry.num_bytes, entry.offset, HowToMake()));
    }
    file.entries_.push_back({.key = {entry.key_low, entry.key_high},
                             .offset = entry.offset,
                             .num_bytes = entry.num_bytes,
                             .checksum = entry.checksum});
  }
  std::sort(file.entries_.begin(), file.entries_.end(),
            [](const Entry& a, const Entry& b) { return IsBefore(a.key, b.key); });
  file.file_ = *std::move(mapped);
  return file;
}

std::optional<std::span<const std::byte>> PackedFile::Find(const PackedKey& key) const {
  const auto at =
      std::lower_bound(entries_.begin(), entries_.end(), key,
                       [](const Entry& a, const PackedKey& b) { return IsBefore(a.key, b); });
  if (at == entries_.end() || at->key != key) return std::nullopt;
  return file_.bytes().subspan(at->offset, at->num_bytes);
}

Result<> PackedFile::CheckEntry(size_t i) const {
  CHECK_LT(i, entries_.size());
  const Entry& entry = entries_[i];
  if (XXH3_64bits(file_.bytes().data() + entry.offset, entry.num_bytes) == entry.checksum) {
    return {};
  }
  return Fail(ErrorCode::kCorrupt,
              fmt::format("{}: the checksum of the matrix at byte {} is wrong; {}", path_,
                          entry.offset, HowToMake()));
}

// The file under its temporary name.
class PackedWriter::File {
 public:
  File(std::string path, const PackedFile::Expected& about, uint32_t num_entries)
      : path_(std::move(path)),
        temporary_path_(fmt::format("{}.{}.tmp", path_, ::getpid())),
        about_(about),
        num_entries_(num_entries),
        end_(ToPage(sizeof(FileHeader) + num_entries * sizeof(FileEntry))) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ < 0) return;
    ::close(descriptor_);
    ::unlink(temporary_path_.c_str());
  }

  Result<> Create() {
    descriptor_ = ::open(temporary_path_.c_str(),
                         O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (descriptor_ < 0) return tl::unexpected(SystemError(temporary_path_, "cannot be created"));
    return {};
  }

  Result<> Add(const PackedKey& key, std::span<const std::byte> bytes) {
    CHECK_LT(entries_.size(), num_entries_);
    if (Result<> written = WriteAt(end_, bytes); !written) return written;
    entries_.push_back({.key_low = key.low,
                        .key_high = key.high,
                        .offset = end_,
                        .num_bytes = bytes.size(),
                        .checksum = XXH3_64bits(bytes.data(), bytes.size()),
                        .reserved = 0});
    end_ = ToPage(end_ + bytes.size());
    return {};
  }

  Result<> Finish() {
    CHECK_EQ(entries_.size(), num_entries_);
    FileHeader header{.magic = kMagic,
                      .format_version = kFormatVersion,
                      .layout_version = about_.layout_version,
                      .source_low = about_.source.low,
                      .source_high = about_.source.high,
                      .file_bytes = end_,
                      .num_entries = num_entries_,
                      .reserved = 0,
                      .reserved_too = 0,
                      .checksum = 0};
    header.checksum = TableChecksum(header, entries_);
    if (::ftruncate(descriptor_, static_cast<off_t>(end_)) != 0) {
      return tl::unexpected(SystemError(temporary_path_, "cannot be written"));
    }
    if (Result<> written = WriteAt(sizeof(header), std::as_bytes(std::span(entries_))); !written) {
      return written;
    }
    if (Result<> written = WriteAt(0, std::as_bytes(std::span(&header, 1))); !written) {
      return written;
    }
    if (::fsync(descriptor_) != 0) {
      return tl::unexpected(SystemError(temporary_path_, "cannot be written"));
    }
    if (::rename(temporary_path_.c_str(), path_.c_str()) != 0) {
      return tl::unexpected(SystemError(path_, "cannot be created"));
    }
    ::close(descriptor_);
    descriptor_ = -1;
    return {};
  }

 private:
  Result<> WriteAt(uint64_t offset, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t count =
          ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return tl::unexpected(SystemError(temporary_path_, "cannot be written"));
      bytes = bytes.subspan(static_cast<size_t>(count));
      offset += static_cast<uint64_t>(count);
    }
    return {};
  }

  std::string path_;
  std::string temporary_path_;
  PackedFile::Expected about_;
  uint32_t num_entries_;
  uint64_t end_;
  int descriptor_ = -1;
  std::vector<FileEntry> entries_;
};

PackedWriter::PackedWriter(std::unique_ptr<File> file) : file_(std::move(file)) {}
PackedWriter::PackedWriter(PackedWriter&&) noexcept = default;
PackedWriter& PackedWriter::operator=(PackedWriter&&) noexcept = default;
PackedWriter::~PackedWriter() = default;

Result<PackedWriter> PackedWriter::Create(const std::string& path,
                                          const PackedFile::Expected& about, uint32_t num_entries) {
  CHECK_GE(num_entries, 1u);
  CHECK_LE(num_entries, PackedFile::kMaxEntries);
  auto file = std::make_unique<File>(path, about, num_entries);
  if (Result<> created = file->Create(); !created) return Forward(created);
  return PackedWriter(std::move(file));
}

Result<> PackedWriter::Add(const PackedKey& key, std::span<const std::byte> bytes) {
  return file_->Add(key, bytes);
}

Result<> PackedWriter::Finish() {
  return file_->Finish();
}

}  // namespace baton
