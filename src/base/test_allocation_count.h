// Counts the allocations of a test program, to show that a step makes none.
//
// Replaces the program's operator new, so exactly one file of a test program includes this. For
// tests only.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace baton::internal {
inline std::atomic<int64_t> allocation_count = 0;
}  // namespace baton::internal

namespace baton {
// Allocations by operator new since the program began, on all threads.
inline int64_t AllocationCount() {
  return internal::allocation_count.load();
}
}  // namespace baton

// Not inlined: GCC would take the free() for a mismatch with operator new.
[[gnu::noinline]] void* operator new(size_t bytes) {
  baton::internal::allocation_count.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  std::abort();
}
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  baton::internal::allocation_count.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
