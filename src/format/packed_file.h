// Packed models: the weights of a model file as the kernels read them, saved beside it, so that
// starting costs no more than mapping a file.
//
// A packed file holds matrices only and is used together with its model file, which keeps the
// metadata. It names the model file it was made from by a fingerprint, so that one made from
// another file is never used. It is written under another name and renamed when whole.
//
// Layout, little-endian: a header of 64 bytes, then a table of entries of 48 bytes, then the
// matrices, each at a multiple of 4,096 bytes. The header has a checksum of itself and the table;
// each entry has the checksum of its matrix. A matrix is known by a 128-bit key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/replacing_file.h"
#include "base/result.h"
#include "format/gguf.h"
#include "format/mapped_file.h"

namespace baton {

// What tells one model file from another: names, types, shapes and places of all tensors, and the
// first and last bytes of each. Reads two pages of each tensor at most.
Hash128 FingerprintOf(const GgufFile& file);

// The packed file that belongs to a model file: its path (of the first part) and ".packed".
std::string PackedPathOf(const GgufFile& file);

// A matrix in the table, as the file has it.
struct PackedEntry {
  Hash128 key;
  uint64_t offset = 0;
  uint64_t num_bytes = 0;
  uint64_t checksum = 0;
  uint64_t reserved = 0;
};

// An open packed file. Move-only; bytes stay where they are when it is moved.
// Threads: const functions from any thread.
class PackedFile {
 public:
  // The most matrices that a file may hold.
  static constexpr uint32_t kMaxEntries = 1u << 18;

  // What a reader of matrices expects of a file.
  struct Expected {
    Hash128 source;               // the fingerprint of the model file
    uint32_t layout_version = 0;  // of the bytes of a matrix
  };

  // Maps the file and checks header and table.
  // Errors: not-found; as MappedFile::Open; invalid (not a packed file; of another version; made
  // from another model file), corrupt (cut short, checksum). Messages say what to do about it.
  static Result<PackedFile> Open(const std::string& path, const Expected& expected);

  const std::string& path() const { return path_; }
  uint64_t file_bytes() const { return file_.bytes().size(); }
  size_t num_entries() const { return entries_.size(); }

  // The bytes of a matrix, aligned to a page; nothing if there is none.
  std::optional<std::span<const std::byte>> Find(const Hash128& key) const;

  // Compares entry i with its checksum, which reads all of it, and the zeros behind it. Errors:
  // corrupt. Requires: i < num_entries().
  Result<> CheckEntry(size_t i) const;

  // An error about this file, with what to do about it.
  tl::unexpected<Error> Refuse(ErrorCode code, const std::string& why) const;

 private:
  PackedFile() = default;

  std::string path_;
  MappedFile file_;
  std::vector<PackedEntry> entries_;  // sorted by key
};

// Writes a packed file, matrix by matrix. Until Finish succeeds there is no file at the path, or
// the old one.
class PackedWriter {
 public:
  // Starts a file for `num_entries` matrices. Errors: as ReplacingFile::Create, for packed files.
  // Requires: 1 <= num_entries <= PackedFile::kMaxEntries.
  static Result<PackedWriter> Create(const std::string& path, const PackedFile::Expected& about,
                                     uint32_t num_entries);

  // Appends a matrix. Errors: internal (the disk is full, ...).
  // Requires: fewer than num_entries so far, each with a key of its own.
  Result<> Add(const Hash128& key, std::span<const std::byte> bytes);

  // Writes the table, waits for the disk, and gives the file its name.
  // Requires: all entries were added. Errors: internal.
  Result<> Finish();

 private:
  PackedWriter(ReplacingFile file, const PackedFile::Expected& about, uint32_t num_entries);

  ReplacingFile file_;
  PackedFile::Expected about_;
  uint32_t num_entries_;
  uint64_t end_;  // of what is written, the table included
  std::vector<PackedEntry> entries_;
};

}  // namespace baton
