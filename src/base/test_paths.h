// Where tests find what is too large or not ours to commit: real models, vocabularies, templates.
//
// tools/fetch fills $BATON_CACHE (default $HOME/.cache/baton). For tests only.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace baton {

// The path of a file below the cache folder, or nothing if it is not there.
inline std::optional<std::string> CachedFile(const std::string& name) {
  const char* cache = std::getenv("BATON_CACHE");
  const char* home = std::getenv("HOME");
  std::filesystem::path folder;
  if (cache != nullptr) {
    folder = cache;
  } else if (home != nullptr) {
    folder = std::filesystem::path(home) / ".cache" / "baton";
  } else {
    return std::nullopt;
  }
  std::error_code error;
  if (!std::filesystem::exists(folder / name, error)) return std::nullopt;
  return (folder / name).string();
}

// Whether a missing file fails a test (./check) instead of skipping it.
inline bool CachedFilesRequired() {
  return std::getenv("BATON_REQUIRE_MODELS") != nullptr;
}

}  // namespace baton

// Binds `variable` to the path of the cached file, or skips (fails where files are required).
#define BATON_CACHED_FILE_OR_SKIP(variable, name)                                             \
  std::string variable;                                                                       \
  do {                                                                                        \
    std::optional<std::string> cached_path_ = ::baton::CachedFile(name);                      \
    if (!cached_path_.has_value()) {                                                          \
      if (::baton::CachedFilesRequired()) FAIL() << (name) << " is missing: run tools/fetch"; \
      GTEST_SKIP() << (name) << " is missing: run tools/fetch";                               \
    }                                                                                         \
    variable = *cached_path_;                                                                 \
  } while (false)
