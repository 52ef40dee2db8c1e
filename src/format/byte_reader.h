// Reads the fields of a binary header one after the other, never past its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace baton {

// A text from a file as part of a one-line message: quoted, control and non-ASCII bytes as \xHH,
// cut after 80 bytes.
std::string QuoteForMessage(std::string_view text);

// A cursor over the bytes of a file. `name` is the file's name in messages.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string_view name)
      : bytes_(bytes), name_(name) {}

  uint64_t position() const { return position_; }
  uint64_t size() const { return bytes_.size(); }
  uint64_t remaining() const { return bytes_.size() - position_; }

  // The next field. `what` says in a message which one was cut off. Errors: kCorrupt at the end.
  template <typename T>
  Result<T> Read(std::string_view what) {
    if (remaining() < sizeof(T)) return CutOff(what, sizeof(T));
    T value{};
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }

  // The next `count` bytes. Errors: kCorrupt if fewer are left.
  Result<std::span<const std::byte>> ReadBytes(uint64_t count, std::string_view what);

  // A string: a 64-bit length, then its bytes. Errors: kCorrupt if it is longer than `max_bytes` or
  // than the file.
  Result<std::string_view> ReadString(uint64_t max_bytes, std::string_view what);

  // A failure that names the file and the byte: "model.gguf: at byte 24: reason".
  tl::unexpected<Error> FailAt(uint64_t offset, ErrorCode code, const std::string& reason) const;
  // The same for a file that contradicts itself, with the advice to fetch it again.
  tl::unexpected<Error> Corrupt(uint64_t offset, const std::string& reason) const;

 private:
  tl::unexpected<Error> CutOff(std::string_view what, uint64_t wanted) const;

  std::span<const std::byte> bytes_;
  std::string_view name_;
  uint64_t position_ = 0;
};

}  // namespace baton
