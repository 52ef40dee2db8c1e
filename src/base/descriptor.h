// A file descriptor with one owner.
#pragma once

#include <unistd.h>

#include <utility>

namespace baton {

// Closes its descriptor at the end. Move-only.
class Descriptor {
 public:
  Descriptor() = default;
  // Takes what open() and its like return: a descriptor, or a negative number for none.
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  bool is_open() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

}  // namespace baton
