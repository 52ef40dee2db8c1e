// The small text files in which Linux describes the machine and this process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton {

// Where those files are; other folders in tests.
struct SystemFolders {
  std::filesystem::path proc = "/proc";
  std::filesystem::path sys = "/sys";
};

// The first lines of a file, at most 4,096 of at most 4,095 bytes (a longer one ends the reading);
// empty if it cannot be read.
std::vector<std::string> ReadSystemLines(const std::filesystem::path& path);

// The number at the front of the text, after blanks; nothing for "max", -1, or what 64 bits cannot
// hold.
std::optional<uint64_t> LeadingNumber(std::string_view text);

// The number at the front of the file's first line.
std::optional<uint64_t> FirstNumberIn(const std::filesystem::path& path);

// The number behind `key` in the first line that begins with it.
std::optional<uint64_t> NumberAfter(const std::filesystem::path& path, std::string_view key);

}  // namespace baton
