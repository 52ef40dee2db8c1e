// A file that appears whole or not at all: written without a name, or under another beside its
// place, and given its name at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace baton {

// What a file holds, told by its beginning: only that may be replaced.
struct FileKind {
  // With an article, for messages: "a saved cache".
  std::string_view name;
  // Whether a file that begins so is of this kind. `head` is its first kHeadBytes, or all of a
  // shorter one, and never empty: an empty file is of any kind.
  bool (*holds)(std::string_view head);
  // A new file is for its owner only.
  bool is_private = false;

  static constexpr size_t kHeadBytes = 4096;
};

// Until Finish succeeds there is no file at the path, or the old one. What was not finished is
// gone, however the process ends, where the file system can hold a file without a name; else, and
// in the moment of replacing, a killed process leaves a file `NAME.PID-N.tmp`, which the next
// writer of the same path removes. A link stays, and what it points to is replaced; a file that is
// replaced keeps its mode, a new one has what umask leaves. Two writers of one path do not meet:
// the one that finishes last stays. Move-only.
class ReplacingFile {
 public:
  // Errors, all with the path and what to do: invalid (something is there that is not of this kind;
  // a device, pipe or socket, or a name in /proc for a file that a process has open); not-found (no
  // such folder); internal (an old file that is closed to writing, a folder of that name, ...).
  static Result<ReplacingFile> Create(const std::string& path, const FileKind& kind);

  // As Create does by itself where the file system needs it: the file has a name while it is
  // written.
  static Result<ReplacingFile> CreateNamed(const std::string& path, const FileKind& kind);

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
    std::string temporary;  // beside the target; empty while it has no name
  };
  ReplacingFile(Place place, int descriptor);
  bool TakeName();
  void Drop();

  Place place_;
  int descriptor_ = -1;
};

}  // namespace baton
