#include "engine/available_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace baton {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxLines = 4096;
constexpr int kMaxDepth = 64;
constexpr std::streamsize kMaxLineBytes = 4096;

// The first lines of a small file; empty if it cannot be read.
std::vector<std::string> ReadLines(const fs::path& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  std::string buffer(kMaxLineBytes, '\0');
  while (std::ssize(lines) < kMaxLines && file.getline(buffer.data(), kMaxLineBytes)) {
    lines.emplace_back(buffer.c_str());
  }
  return lines;
}

// The number at the front of the text, after blanks ("max" and the like are none).
std::optional<uint64_t> LeadingNumber(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::optional<uint64_t> NumberIn(const fs::path& path) {
  const std::vector<std::string> lines = ReadLines(path);
  if (lines.empty()) return std::nullopt;
  return LeadingNumber(lines.front());
}

// The number after a key at the start of a line.
std::optional<uint64_t> NumberAfter(const fs::path& path, std::string_view key) {
  for (const std::string& line : ReadLines(path)) {
    if (line.starts_with(key)) return LeadingNumber(std::string_view(line).substr(key.size()));
  }
  return std::nullopt;
}

std::optional<uint64_t> Smaller(std::optional<uint64_t> a, std::optional<uint64_t> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

// The names of one version of the interface.
struct GroupFiles {
  const char* limit;
  const char* used;
  std::string_view droppable;  // key in memory.stat: file pages that can be dropped
};
constexpr GroupFiles kVersion2 = {"memory.max", "memory.current", "inactive_file "};
constexpr GroupFiles kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                  "total_inactive_file "};

// What is left of one group's limit.
std::optional<uint64_t> Headroom(const fs::path& folder, const GroupFiles& files) {
  const std::optional<uint64_t> limit = NumberIn(folder / files.limit);
  const std::optional<uint64_t> current = NumberIn(folder / files.used);
  if (!limit || !current) return std::nullopt;
  const uint64_t droppable = NumberAfter(folder / "memory.stat", files.droppable).value_or(0);
  const uint64_t used = *current - std::min(*current, droppable);
  return *limit - std::min(*limit, used);
}

// The least headroom of the group and of all groups above it. In a container the path may name
// folders that are not mounted there; the walk then ends at the mount's root, which is our group.
std::optional<uint64_t> LeastAbove(const fs::path& mount, fs::path group, const GroupFiles& files) {
  std::optional<uint64_t> least;
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    least = Smaller(least, Headroom(mount / group.relative_path(), files));
    if (!group.has_relative_path()) break;
    group = group.parent_path();
  }
  return least;
}

bool ListsMemory(std::string_view controllers) {
  while (!controllers.empty()) {
    const size_t comma = controllers.find(',');
    if (controllers.substr(0, comma) == "memory") return true;
    if (comma == std::string_view::npos) return false;
    controllers.remove_prefix(comma + 1);
  }
  return false;
}

// Lines of /proc/self/cgroup: "hierarchy:controllers:/path"; version 2 has no controllers.
std::optional<uint64_t> CgroupHeadroom(const MemorySource& source) {
  const fs::path root = source.sys / "fs/cgroup";
  std::optional<uint64_t> least;
  for (const std::string& line : ReadLines(source.proc / "self/cgroup")) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = line.substr(second + 1);
    if (controllers.empty()) {
      for (const fs::path& mount : {root, root / "unified"}) {
        least = Smaller(least, LeastAbove(mount, group, kVersion2));
      }
    } else if (ListsMemory(controllers)) {
      for (const fs::path& mount : {root / controllers, root / "memory"}) {
        least = Smaller(least, LeastAbove(mount, group, kVersion1));
      }
    }
  }
  return least;
}

std::optional<uint64_t> SystemAvailable(const MemorySource& source) {
  const std::optional<uint64_t> kilobytes = NumberAfter(source.proc / "meminfo", "MemAvailable:");
  if (!kilobytes || *kilobytes > UINT64_MAX / 1024) return std::nullopt;
  return *kilobytes * 1024;
}

}  // namespace

std::optional<uint64_t> AvailableMemory(const MemorySource& source) {
  return Smaller(SystemAvailable(source), CgroupHeadroom(source));
}

}  // namespace baton
