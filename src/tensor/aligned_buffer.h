// Memory for tensors: aligned to a cache line, owned by one object, zeroed.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "base/result.h"

namespace baton {

// A cache line, and the width of the widest vector register.
inline constexpr size_t kBufferAlignment = 64;
// From this size on a buffer has pages of its own on a huge-page border (and asks for huge pages).
inline constexpr size_t kHugePageBytes = size_t{2} << 20;
// What an allocation may ask for at most: far above any machine, far below overflow.
inline constexpr size_t kMaxBufferBytes = size_t{1} << 46;

// Bytes of memory with one owner. Move-only.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  AlignedBytes(AlignedBytes&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  AlignedBytes& operator=(AlignedBytes&& other) noexcept;
  ~AlignedBytes();

  // Allocates zeroed bytes; from kHugePageBytes on they cost nothing until touched.
  // Units: bytes; 0 gives an empty buffer.
  // Errors: kExhausted if the system has no memory for it.
  static Result<AlignedBytes> Allocate(size_t num_bytes);

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  AlignedBytes(std::byte* data, size_t size) : data_(data), size_(size) {}
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// `size` elements of a trivial type in AlignedBytes, zeroed. Move-only.
template <typename T>
class AlignedBuffer {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  AlignedBuffer() = default;

  // Allocates `size` zeroed elements. Errors: kExhausted.
  static Result<AlignedBuffer> Allocate(size_t size) {
    if (size > kMaxBufferBytes / sizeof(T)) {
      return Fail(ErrorCode::kExhausted, "buffer too large: " + std::to_string(size) +
                                             " elements of " + std::to_string(sizeof(T)) +
                                             " bytes");
    }
    Result<AlignedBytes> bytes = AlignedBytes::Allocate(size * sizeof(T));
    if (!bytes) return Forward(bytes);
    return AlignedBuffer(*std::move(bytes), size);
  }

  T* data() const { return reinterpret_cast<T*>(bytes_.data()); }
  size_t size() const { return size_; }
  size_t size_bytes() const { return bytes_.size(); }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) const { return data()[i]; }
  T* begin() const { return data(); }
  T* end() const { return data() + size_; }
  std::span<T> span() const { return {data(), size_}; }

 private:
  AlignedBuffer(AlignedBytes bytes, size_t size) : bytes_(std::move(bytes)), size_(size) {}
  AlignedBytes bytes_;
  size_t size_ = 0;
};

}  // namespace baton
