// Hashes that tell contents apart and notice damage. Not for secrets: anybody can make two contents
// with the same hash (base/sha256.h is for that).
//
// The only user of xxHash: XXH3, whose values are the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace baton {

struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
};

// XXH3, 64 bits, of `bytes`.
uint64_t Checksum64(std::span<const std::byte> bytes);

// The same, started from another checksum, so that the order of parts counts.
uint64_t Checksum64(std::span<const std::byte> bytes, uint64_t before);

// XXH3, 128 bits, of `bytes`. Memory: allocates nothing.
Hash128 ContentHash(std::span<const std::byte> bytes);

// The hash of values one after the other. Move-only.
class Hasher {
 public:
  Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  ~Hasher();

  Hasher& Add(std::span<const std::byte> bytes);
  // With its length, so that neighbours cannot trade characters.
  Hasher& Add(std::string_view text);
  Hasher& Add(uint64_t value);

  Hash128 Finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace baton
