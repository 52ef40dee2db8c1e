// A regular file mapped into memory, read-only.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace baton {

// The whole of a file as bytes. Move-only; the bytes stay where they are when it is moved.
class MappedFile {
 public:
  // Maps the file at `path`.
  // Errors: kNotFound if there is none; kInvalid if it is a folder, a pipe, a device or empty, or
  // may not be read; kInternal if the system fails. Never waits on a pipe.
  static Result<MappedFile> Open(const std::string& path);

  MappedFile() = default;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

  // Gives back the memory of the pages that lie wholly in the range; they are read anew when
  // touched. Requires: it lies in bytes().
  void Release(std::span<const std::byte> range) const;

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

}  // namespace baton
