#include "tensor/aligned_buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace baton {
namespace {

size_t RoundUp(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Pages of their own, starting on a huge-page border; nullptr if the system refuses.
std::byte* MapPages(size_t num_bytes) {
  // Ask for one huge page more, then give back what lies outside the aligned part.
  const size_t mapped = num_bytes + kHugePageBytes;
  void* raw =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto* start = static_cast<std::byte*>(raw);
  const auto address = reinterpret_cast<uintptr_t>(raw);
  const size_t before = RoundUp(address, kHugePageBytes) - address;
  const size_t after = kHugePageBytes - before;
  if (before != 0) munmap(start, before);
  if (after != 0) munmap(start + before + num_bytes, after);
  // Advice only: a kernel without transparent huge pages works, just slower.
  (void)madvise(start + before, num_bytes, MADV_HUGEPAGE);
  return start + before;
}

bool IsMapped(size_t num_bytes) {
  return num_bytes >= kHugePageBytes;
}

void Release(std::byte* data, size_t num_bytes) {
  if (data == nullptr) return;
  if (IsMapped(num_bytes)) {
    munmap(data, RoundUp(num_bytes, kHugePageBytes));
  } else {
    std::free(data);
  }
}

}  // namespace

AlignedBytes& AlignedBytes::operator=(AlignedBytes&& other) noexcept {
  if (this == &other) return *this;
  Release(data_, size_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

AlignedBytes::~AlignedBytes() {
  Release(data_, size_);
}

Result<AlignedBytes> AlignedBytes::Allocate(size_t num_bytes) {
  if (num_bytes == 0) return AlignedBytes();
  std::byte* data = nullptr;
  if (num_bytes <= kMaxBufferBytes) {
    if (IsMapped(num_bytes)) {
      data = MapPages(RoundUp(num_bytes, kHugePageBytes));
    } else {
      const size_t padded = RoundUp(num_bytes, kBufferAlignment);
      data = static_cast<std::byte*>(std::aligned_alloc(kBufferAlignment, padded));
      if (data != nullptr) std::memset(data, 0, padded);
    }
  }
  if (data == nullptr) {
    return Fail(ErrorCode::kExhausted, "out of memory: the system has no room for " +
                                           std::to_string(num_bytes) +
                                           " more bytes; use a smaller model or a smaller context");
  }
  return AlignedBytes(data, num_bytes);
}

}  // namespace baton
