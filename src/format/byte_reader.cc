#include "format/byte_reader.h"

#include <fmt/format.h>

namespace baton {

std::string QuoteForMessage(std::string_view text) {
  constexpr size_t kMaxBytes = 80;
  std::string quoted = "\"";
  for (const char c : text.substr(0, kMaxBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\') {
      quoted += c;
    } else {
      quoted += fmt::format("\\x{:02x}", byte);
    }
  }
  quoted += text.size() > kMaxBytes ? "...\"" : "\"";
  return quoted;
}

Result<std::span<const std::byte>> ByteReader::ReadBytes(uint64_t count, std::string_view what) {
  if (count > remaining()) return CutOff(what, count);
  const std::span<const std::byte> bytes = bytes_.subspan(position_, count);
  position_ += count;
  return bytes;
}

Result<std::string_view> ByteReader::ReadString(uint64_t max_bytes, std::string_view what) {
  const uint64_t start = position_;
  const Result<uint64_t> length = Read<uint64_t>(what);
  if (!length) return Forward(length);
  if (*length > max_bytes) {
    return Corrupt(start, fmt::format("length of {} is over the limit: {} bytes, limit {}", what,
                                      *length, max_bytes));
  }
  const auto bytes = ReadBytes(*length, what);
  if (!bytes) return Forward(bytes);
  return std::string_view(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

tl::unexpected<Error> ByteReader::FailAt(uint64_t offset, ErrorCode code,
                                         const std::string& reason) const {
  return Fail(code, fmt::format("{}: at byte {}: {}", name_, offset, reason));
}

tl::unexpected<Error> ByteReader::Corrupt(uint64_t offset, const std::string& reason) const {
  return FailAt(offset, ErrorCode::kCorrupt,
                reason + "; the file is damaged: download or convert it again");
}

tl::unexpected<Error> ByteReader::CutOff(std::string_view what, uint64_t wanted) const {
  return Corrupt(position_, fmt::format("the file ends inside {}: {} bytes wanted, {} left", what,
                                        wanted, remaining()));
}

}  // namespace baton
