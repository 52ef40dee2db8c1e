#include "base/hash.h"

#include <gtest/gtest.h>

#include <string_view>

namespace baton {
namespace {

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// Values of `xxhsum -H3` and `xxhsum -H2`.
TEST(Hash, IsXxh3) {
  EXPECT_EQ(Checksum64(Bytes("")), 0x2d06800538d394c2u);
  EXPECT_EQ(Checksum64(Bytes("abc")), 0x78af5f94892f3950u);
  const Hash128 hash = Hasher().Add(Bytes("abc")).Finish();
  EXPECT_EQ(hash.high, 0x06b05ab6733a6185u);
  EXPECT_EQ(hash.low, 0x78af5f94892f3950u);
  EXPECT_EQ(ContentHash(Bytes("abc")), hash);
}

TEST(Hash, PiecesAreAsTheWhole) {
  EXPECT_EQ(Hasher().Add(Bytes("ab")).Add(Bytes("c")).Finish(),
            Hasher().Add(Bytes("abc")).Finish());
}

TEST(Hash, TextsCannotTradeCharacters) {
  const auto hash = [](std::string_view a, std::string_view b) {
    return Hasher().Add(a).Add(b).Finish();
  };
  EXPECT_NE(hash("ab", "c"), hash("a", "bc"));
  EXPECT_EQ(hash("ab", "c"), hash("ab", "c"));
}

TEST(Hash, OrderOfPartsCounts) {
  const uint64_t ab = Checksum64(Bytes("b"), Checksum64(Bytes("a")));
  const uint64_t ba = Checksum64(Bytes("a"), Checksum64(Bytes("b")));
  EXPECT_NE(ab, ba);
}

}  // namespace
}  // namespace baton
