#include "format/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include "base/check.h"

namespace baton {
namespace {

std::string ErrnoText(int number) {
  return std::generic_category().message(number);
}

// What to tell a person whose path leads to something else than a file; nullptr for a file.
const char* WhyNotAFile(mode_t mode) {
  if (S_ISREG(mode)) return nullptr;
  if (S_ISDIR(mode)) return "is a folder, not a file; name the .gguf file in it";
  if (S_ISFIFO(mode)) return "is a pipe; a model must be a file on disk";
  return "is not a regular file; a model must be a file on disk";
}

Result<MappedFile> FailToOpen(const std::string& path, int number) {
  switch (number) {
    case ENOENT:
    case ENOTDIR:
      return Fail(ErrorCode::kNotFound, path + ": there is no such file");
    case ENAMETOOLONG:
      return Fail(ErrorCode::kNotFound, path + ": the name is too long; there is no such file");
    case EACCES:
    case EPERM:
      return Fail(ErrorCode::kInvalid, path + ": no permission to read it; see ls -l");
    case ENXIO:
      return Fail(ErrorCode::kInvalid, path + ": is a device or socket; a model must be a file");
    default:
      return Fail(ErrorCode::kInternal, path + ": cannot be opened: " + ErrnoText(number));
  }
}

// Closes a descriptor at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

bool Contains(std::span<const std::byte> whole, std::span<const std::byte> range) {
  const auto whole_start = reinterpret_cast<uintptr_t>(whole.data());
  const auto start = reinterpret_cast<uintptr_t>(range.data());
  return start >= whole_start && start - whole_start <= whole.size() &&
         range.size() <= whole.size() - (start - whole_start);
}

}  // namespace

Result<MappedFile> MappedFile::Open(const std::string& path) {
  if (path.find('\0') != std::string::npos) {
    return Fail(ErrorCode::kInvalid, "the path of a model must not contain a NUL character");
  }
  // O_NONBLOCK: opening a pipe without a writer would wait for one.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  if (file.number() < 0) return FailToOpen(path, errno);
  struct stat status {};
  if (fstat(file.number(), &status) != 0) return FailToOpen(path, errno);
  if (const char* reason = WhyNotAFile(status.st_mode)) {
    return Fail(ErrorCode::kInvalid, path + ": " + reason);
  }
  if (status.st_size <= 0) {
    return Fail(ErrorCode::kInvalid, path + ": is empty; download it again");
  }
  const auto num_bytes = static_cast<size_t>(status.st_size);
  void* start = mmap(nullptr, num_bytes, PROT_READ, MAP_PRIVATE, file.number(), 0);
  if (start == MAP_FAILED) {
    const int number = errno;
    return Fail(number == ENOMEM ? ErrorCode::kExhausted : ErrorCode::kInternal,
                path + ": cannot be mapped into memory (" + ErrnoText(number) + "), " +
                    std::to_string(num_bytes) + " bytes");
  }
  return MappedFile(std::span(static_cast<const std::byte*>(start), num_bytes));
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::Release(std::span<const std::byte> range) const {
  CHECK(Contains(bytes_, range));
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<uintptr_t>(range.data());
  const uintptr_t start = (first + page - 1) / page * page;
  const uintptr_t end = (first + range.size()) / page * page;
  if (end > start) (void)madvise(reinterpret_cast<void*>(start), end - start, MADV_DONTNEED);
}

}  // namespace baton
