#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace baton {

struct Hasher::State {
  alignas(64) XXH3_state_t xxh3;
};

uint64_t Checksum64(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

uint64_t Checksum64(std::span<const std::byte> bytes, uint64_t before) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), before);
}

Hash128 ContentHash(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {.low = hash.low64, .high = hash.high64};
}

Hasher::Hasher() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(&state_->xxh3);
}
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;
Hasher::~Hasher() = default;

Hasher& Hasher::Add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state_->xxh3, bytes.data(), bytes.size());
  return *this;
}

Hasher& Hasher::Add(std::string_view text) {
  return Add(uint64_t{text.size()}).Add(std::as_bytes(std::span(text)));
}

Hasher& Hasher::Add(uint64_t value) {
  return Add(std::as_bytes(std::span(&value, 1)));
}

Hash128 Hasher::Finish() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh3);
  return {.low = hash.low64, .high = hash.high64};
}

}  // namespace baton
