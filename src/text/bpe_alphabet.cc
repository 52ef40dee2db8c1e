#include "text/bpe_alphabet.h"

#include <array>
#include <cstdint>

#include "text/unicode.h"

namespace baton {
namespace {

constexpr uint32_t kFirstStandIn = 0x100;
constexpr size_t kStandIns = 68;

constexpr bool StandsForItself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// The byte that code point 0..0x143 stands for, or -1.
constexpr auto kByteOfCodePoint = [] {
  std::array<int, kFirstStandIn + kStandIns> table{};
  table.fill(-1);
  uint32_t stand_in = kFirstStandIn;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    table[StandsForItself(byte) ? byte : stand_in++] = static_cast<int>(byte);
  }
  return table;
}();

}  // namespace

std::optional<std::string> BytesOfByteLevelPiece(std::string_view piece) {
  std::string bytes;
  bytes.reserve(piece.size());
  for (size_t position = 0; position < piece.size();) {
    const Utf8Step step = StepUtf8(piece, position);
    if (step.code_point >= kByteOfCodePoint.size()) return std::nullopt;
    const int byte = kByteOfCodePoint[step.code_point];
    if (byte < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
    position += step.length;
  }
  return bytes;
}

}  // namespace baton
