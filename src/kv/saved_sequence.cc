#include "kv/saved_sequence.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/number_text.h"
#include "base/replacing_file.h"
#include "kv/block_layout.h"

namespace baton {
namespace {

constexpr uint64_t kMagic = 0x31564b4e4f544142;  // "BATONKV1"
constexpr uint64_t kAlignment = 64;

struct FileHeader {
  uint64_t magic;
  Hash128 key;
  uint64_t block_bytes;
  uint64_t num_tokens;
  uint64_t file_bytes;
  uint64_t reserved;
  uint64_t checksum;  // of the header before it, the tokens and the checksums
};
static_assert(sizeof(FileHeader) == 64);

struct Places {
  uint64_t checksums;
  uint64_t first_block;
  uint64_t end;
};
Places PlacesOf(uint64_t num_tokens, uint64_t block_bytes) {
  const auto num_blocks = static_cast<uint64_t>(NumBlocksFor(static_cast<int64_t>(num_tokens)));
  Places places{};
  places.checksums = (sizeof(FileHeader) + num_tokens * sizeof(TokenId) + 7) / 8 * 8;
  const uint64_t end_of_table = places.checksums + num_blocks * sizeof(uint64_t);
  places.first_block = (end_of_table + kAlignment - 1) / kAlignment * kAlignment;
  places.end = places.first_block + num_blocks * block_bytes;
  return places;
}

template <typename T>
std::span<const std::byte> BytesOf(const T& values) {
  return std::as_bytes(std::span(values));
}
std::span<const std::byte> BytesOf(const FileHeader& header) {
  return std::as_bytes(std::span(&header, 1));
}

uint64_t TableChecksum(const FileHeader& header, std::span<const TokenId> tokens,
                       std::span<const uint64_t> checksums) {
  const uint64_t of_header = Checksum64(BytesOf(header).first(offsetof(FileHeader, checksum)));
  return Checksum64(BytesOf(checksums), Checksum64(BytesOf(tokens), of_header));
}

tl::unexpected<Error> FailToRead(const std::string& path) {
  return Fail(ErrorCode::kInternal,
              fmt::format("{}: cannot be read: {}", path, std::generic_category().message(errno)));
}

tl::unexpected<Error> Damaged(const std::string& path, const std::string& what) {
  return Fail(ErrorCode::kCorrupt,
              fmt::format("{}: {}; the saved cache is damaged, save it anew", path, what));
}

// All of `bytes` from a place of the file. Errors: corrupt (the file ends before), internal.
Result<> ReadAt(int descriptor, const std::string& path, uint64_t offset,
                std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count =
        ::pread(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FailToRead(path);
    if (count == 0) return Damaged(path, "it ends too early");
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
  return {};
}

bool IsSaved(std::string_view head) {
  uint64_t magic = 0;
  if (head.size() < sizeof(magic)) return false;
  std::memcpy(&magic, head.data(), sizeof(magic));
  return magic == kMagic;
}

constexpr FileKind kSavedKind = {.name = "a saved cache", .holds = IsSaved, .is_private = true};

// A file that begins as a saved sequence. Move-only.
struct OpenFile {
  OpenFile() = default;
  OpenFile(OpenFile&& other) noexcept
      : descriptor(std::exchange(other.descriptor, -1)),
        file_bytes(other.file_bytes),
        header(other.header) {}
  OpenFile& operator=(OpenFile&&) = delete;
  ~OpenFile() {
    if (descriptor >= 0) ::close(descriptor);
  }

  int descriptor = -1;
  uint64_t file_bytes = 0;
  FileHeader header{};
};

Result<OpenFile> OpenSaved(const std::string& path) {
  OpenFile file;
  file.descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (file.descriptor < 0) {
    if (errno == ENOENT || errno == ENOTDIR) {
      return Fail(ErrorCode::kNotFound, path + ": there is no such file");
    }
    return FailToRead(path);
  }
  struct stat status {};
  if (::fstat(file.descriptor, &status) != 0) return FailToRead(path);
  file.file_bytes = static_cast<uint64_t>(status.st_size);
  const bool is_file = S_ISREG(status.st_mode) && file.file_bytes >= sizeof(FileHeader);
  if (is_file) {
    const auto head = std::as_writable_bytes(std::span(&file.header, 1));
    if (Result<> read = ReadAt(file.descriptor, path, 0, head); !read) return Forward(read);
  }
  if (!is_file || file.header.magic != kMagic) {
    return Fail(ErrorCode::kInvalid, path + ": is not a saved cache (--save-kv makes one)");
  }
  return file;
}

// Between the parts of a file are zeros, less than kAlignment of them. Errors: corrupt, internal.
struct Gap {
  uint64_t begin;
  uint64_t end;
};
Result<> CheckGap(int descriptor, const std::string& path, Gap gap) {
  std::array<std::byte, kAlignment> storage;
  const std::span bytes = std::span(storage).first(gap.end - gap.begin);
  if (Result<> read = ReadAt(descriptor, path, gap.begin, bytes); !read) return read;
  if (std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; })) {
    return {};
  }
  return Damaged(path, fmt::format("between bytes {} and {} is something", gap.begin, gap.end));
}

}  // namespace

Result<> CheckSavePath(const std::string& path) {
  const Result<ReplacingFile> file = ReplacingFile::Create(path, kSavedKind);
  if (!file) return Forward(file);
  return {};
}

Result<> CheckLoadPath(const std::string& path) {
  const Result<OpenFile> file = OpenSaved(path);
  if (!file) return Forward(file);
  return {};
}

Result<> SaveSequence(const SaveSequenceArgs& args) {
  CHECK_EQ(std::ssize(args.blocks), NumBlocksFor(std::ssize(args.tokens)));
  Result<ReplacingFile> file = ReplacingFile::Create(args.path, kSavedKind);
  if (!file) return Forward(file);
  const Places places = PlacesOf(args.tokens.size(), args.kind.block_bytes);
  std::vector<uint64_t> checksums;
  checksums.reserve(args.blocks.size());
  uint64_t offset = places.first_block;
  for (const std::byte* data : args.blocks) {
    const std::span block(data, args.kind.block_bytes);
    if (Result<> written = file->WriteAt(offset, block); !written) return written;
    checksums.push_back(Checksum64(block));
    offset += block.size();
    if (args.progress) args.progress(std::ssize(checksums), std::ssize(args.blocks));
  }
  FileHeader header{.magic = kMagic,
                    .key = args.kind.key,
                    .block_bytes = args.kind.block_bytes,
                    .num_tokens = args.tokens.size(),
                    .file_bytes = places.end,
                    .reserved = 0,
                    .checksum = 0};
  header.checksum = TableChecksum(header, args.tokens, checksums);
  if (Result<> written = file->WriteAt(places.checksums, BytesOf(checksums)); !written) {
    return written;
  }
  if (Result<> written = file->WriteAt(sizeof(header), BytesOf(args.tokens)); !written) {
    return written;
  }
  if (Result<> written = file->WriteAt(0, BytesOf(header)); !written) return written;
  return file->Finish(places.end);
}

Result<SavedSequence> SavedSequence::Open(const std::string& path, const SavedSequenceKind& kind,
                                          int64_t max_tokens) {
  Result<OpenFile> opened = OpenSaved(path);
  if (!opened) return Forward(opened);
  const FileHeader& header = opened->header;
  const uint64_t file_bytes = opened->file_bytes;
  if (header.key != kind.key || header.block_bytes != kind.block_bytes) {
    return Fail(ErrorCode::kInvalid,
                path +
                    ": was saved with another model, another --precision, another --kv-type, "
                    "another prefill policy "
                    "(--prefill, --sparse) or another version of Baton; save it anew with this "
                    "one");
  }
  if (header.file_bytes != file_bytes) {
    return Damaged(path, fmt::format("it has {} bytes and says {}", file_bytes, header.file_bytes));
  }
  if (header.num_tokens > file_bytes / sizeof(TokenId) ||
      PlacesOf(header.num_tokens, kind.block_bytes).end != file_bytes) {
    return Damaged(path, fmt::format("it has {} and says that it holds {}",
                                     CountOf(static_cast<int64_t>(file_bytes), "byte"),
                                     CountOf(static_cast<int64_t>(header.num_tokens), "token")));
  }
  if (static_cast<int64_t>(header.num_tokens) > max_tokens) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("{}: holds {} tokens, more than the context of {}; choose a larger "
                            "--ctx",
                            path, CountText(static_cast<int64_t>(header.num_tokens)),
                            CountText(max_tokens)));
  }
  const Places places = PlacesOf(header.num_tokens, kind.block_bytes);
  SavedSequence saved;
  saved.path_ = path;
  saved.descriptor_ = std::exchange(opened->descriptor, -1);
  saved.tokens_.resize(header.num_tokens);
  saved.checksums_.resize(
      static_cast<size_t>(NumBlocksFor(static_cast<int64_t>(header.num_tokens))));
  saved.first_block_ = places.first_block;
  Result<> read = ReadAt(saved.descriptor_, path, sizeof(header),
                         std::as_writable_bytes(std::span(saved.tokens_)));
  if (read) {
    read = ReadAt(saved.descriptor_, path, places.checksums,
                  std::as_writable_bytes(std::span(saved.checksums_)));
  }
  if (!read) return Forward(read);
  if (TableChecksum(header, saved.tokens_, saved.checksums_) != header.checksum) {
    return Damaged(path, "the checksum of its tokens is wrong");
  }
  const uint64_t end_of_tokens = sizeof(header) + BytesOf(saved.tokens_).size();
  const uint64_t end_of_table = places.checksums + BytesOf(saved.checksums_).size();
  read = CheckGap(saved.descriptor_, path, {.begin = end_of_tokens, .end = places.checksums});
  if (read) {
    read = CheckGap(saved.descriptor_, path, {.begin = end_of_table, .end = places.first_block});
  }
  if (!read) return Forward(read);
  return saved;
}

SavedSequence::SavedSequence(SavedSequence&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      tokens_(std::move(other.tokens_)),
      checksums_(std::move(other.checksums_)),
      first_block_(other.first_block_) {}

SavedSequence::~SavedSequence() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<> SavedSequence::ReadBlock(int64_t i, std::span<std::byte> block) const {
  CHECK(i >= 0 && i < num_blocks());
  const uint64_t offset = first_block_ + static_cast<uint64_t>(i) * block.size();
  if (Result<> read = ReadAt(descriptor_, path_, offset, block); !read) return read;
  if (Checksum64(block) == checksums_[static_cast<size_t>(i)]) return {};
  return Damaged(path_, fmt::format("the checksum of block {} is wrong", i));
}

}  // namespace baton
