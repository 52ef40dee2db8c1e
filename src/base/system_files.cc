#include "base/system_files.h"

#include <algorithm>
#include <charconv>
#include <fstream>

namespace baton {
namespace {

constexpr int kMaxLines = 4096;
constexpr std::streamsize kMaxLineBytes = 4096;

}  // namespace

std::vector<std::string> ReadSystemLines(const std::filesystem::path& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  std::string buffer(kMaxLineBytes, '\0');
  while (std::ssize(lines) < kMaxLines && file.getline(buffer.data(), kMaxLineBytes)) {
    lines.emplace_back(buffer.c_str());
  }
  return lines;
}

std::optional<uint64_t> LeadingNumber(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::optional<uint64_t> FirstNumberIn(const std::filesystem::path& path) {
  const std::vector<std::string> lines = ReadSystemLines(path);
  if (lines.empty()) return std::nullopt;
  return LeadingNumber(lines.front());
}

std::optional<uint64_t> NumberAfter(const std::filesystem::path& path, std::string_view key) {
  for (const std::string& line : ReadSystemLines(path)) {
    if (line.starts_with(key)) return LeadingNumber(std::string_view(line).substr(key.size()));
  }
  return std::nullopt;
}

}  // namespace baton
