#include "cli/same_file.h"

#include <filesystem>
#include <system_error>

namespace baton {
namespace {

namespace fs = std::filesystem;

fs::path Resolved(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  if (error) return path;
  fs::path resolved = fs::weakly_canonical(absolute, error);
  return error ? absolute.lexically_normal() : resolved;
}

}  // namespace

bool IsSameFile(const std::string& a, const std::string& b) {
  std::error_code error;
  return Resolved(a) == Resolved(b) || fs::equivalent(a, b, error);
}

}  // namespace baton
