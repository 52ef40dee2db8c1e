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
// removed. A link stays, and what it points to is replaced; a file that is replaced keeps its mode,
// a new one has what umask leaves. Two writers of one path do not meet: the one that finishes last
// stays. Move-only.
class ReplacingFile {
 public:
  // Errors, all with the path and the system's words: invalid (a device, pipe or socket is there,
  // which must not be replaced); not-found (no such folder); internal (an old file that is closed
  // to writing, a folder of that name, ...).
  static Result<ReplacingFile> Create(const std::string& path);

  ReplacingFile(ReplacingFile&& other) noexcept;
  ReplacingFile& operator=(ReplacingFile&& other) noexcept;
  ~ReplacingFile();

  // Writes at a place of the file; gaps are zeros. Units: bytes. Errors: internal (disk full, ...).
  Result<> WriteAt(uint64_t offset, std::span<const std::byte> bytes);

  // Makes the file `num_bytes` long, gives it its name, and waits until the disk has both. Errors:
  // internal.
  Result<> Finish(uint64_t num_bytes);

 private:
  // Where a file is written.
  struct Place {
    std::string path;       // as given
    std::string target;     // where its links lead
    std::string temporary;  // beside the target
  };
  ReplacingFile(Place place, int descriptor);
  void Drop();

  Place place_;
  int descriptor_ = -1;
};

}  // namespace baton
