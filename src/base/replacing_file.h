// A file that appears whole or not at all: written under another name beside its place, then
// renamed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace baton {

// Until Finish succeeds there is no file at the path, or the old one; what was not finished is
// removed. Two writers of one path do not meet: the one that finishes last stays. Move-only.
class ReplacingFile {
 public:
  // Errors: internal (cannot be created, with the reason); invalid (a device, pipe or socket is
  // there, which must not be replaced).
  static Result<ReplacingFile> Create(const std::string& path);

  ReplacingFile(ReplacingFile&& other) noexcept;
  ReplacingFile& operator=(ReplacingFile&& other) noexcept;
  ~ReplacingFile();

  // Writes at a place of the file; gaps are zeros. Units: bytes. Errors: internal (disk full, ...).
  Result<> WriteAt(uint64_t offset, std::span<const std::byte> bytes);

  // Makes the file `num_bytes` long, waits for the disk, and gives it its name. Errors: internal.
  Result<> Finish(uint64_t num_bytes);

 private:
  ReplacingFile(std::string path, std::string temporary_path, int descriptor);
  void Drop();

  std::string path_;
  std::string temporary_path_;
  int descriptor_ = -1;
};

}  // namespace baton
