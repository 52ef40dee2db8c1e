#include "bench/machine.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "threads/cpu_topology.h"

namespace baton {
namespace {

constexpr int kMaxCacheEntries = 16;

// The first line of a small file, or nothing.
std::optional<std::string> FirstLine(const std::filesystem::path& path) {
  std::vector<std::string> lines = ReadSystemLines(path);
  if (lines.empty()) return std::nullopt;
  return std::move(lines.front());
}

// What follows "key ... :" in a file of such lines.
std::optional<std::string> FieldOf(const std::filesystem::path& path, std::string_view key) {
  for (const std::string& line : ReadSystemLines(path)) {
    const size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    if (begin == std::string::npos) return std::nullopt;
    return line.substr(begin);
  }
  return std::nullopt;
}

// The number that a text begins with, and its unit if one follows: "2048K", "16 kB".
std::optional<uint64_t> ParseBytes(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number > (uint64_t{1} << 40)) return std::nullopt;
  std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  if (unit.starts_with('K') || unit.starts_with('k')) return number << 10;
  if (unit.starts_with('M')) return number << 20;
  if (unit.starts_with('G')) return number << 30;
  return number;
}

// CPUs of a list such as "0-3,8"; at least 1.
int CountCpus(std::string_view list) {
  int count = 0;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    const std::string_view range = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    int first = 0;
    const auto [end, error] = std::from_chars(range.data(), range.data() + range.size(), first);
    if (error != std::errc()) continue;
    int last = first;
    if (end != range.data() + range.size() && *end == '-') {
      std::from_chars(end + 1, range.data() + range.size(), last);
    }
    if (last >= first && last - first < 1 << 16) count += last - first + 1;
  }
  return std::max(count, 1);
}

std::vector<Cache> ReadCaches(const std::filesystem::path& folder) {
  std::vector<Cache> caches;
  for (int i = 0; i < kMaxCacheEntries; ++i) {
    const std::filesystem::path entry = folder / ("index" + std::to_string(i));
    const std::optional<std::string> level = FirstLine(entry / "level");
    const std::optional<std::string> type = FirstLine(entry / "type");
    const std::optional<std::string> size = FirstLine(entry / "size");
    if (!level || !type || !size || *type == "Instruction") continue;
    const std::optional<uint64_t> number = ParseBytes(*level);
    const std::optional<uint64_t> bytes = ParseBytes(*size);
    if (!number || *number < 1 || *number > 9 || !bytes || *bytes == 0) continue;
    caches.push_back(
        {.level = static_cast<int>(*number),
         .bytes = *bytes,
         .num_sharing = CountCpus(FirstLine(entry / "shared_cpu_list").value_or("0"))});
  }
  std::sort(caches.begin(), caches.end(),
            [](const Cache& a, const Cache& b) { return a.level < b.level; });
  return caches;
}

}  // namespace

bool Machine::IsCacheKnown(int level) const {
  return std::any_of(caches.begin(), caches.end(),
                     [level](const Cache& cache) { return cache.level == level; });
}

uint64_t Machine::CacheBytes(int level) const {
  CHECK(level >= 1 && level <= 3);
  for (const Cache& cache : caches) {
    if (cache.level == level) return cache.bytes;
  }
  constexpr uint64_t kUsual[] = {uint64_t{32} << 10, uint64_t{1} << 20, uint64_t{32} << 20};
  return kUsual[level - 1];
}

Machine ReadMachine(const SystemFolders& system) {
  const CpuTopology topology = ReadCpuTopology();
  Machine machine;
  machine.cpu_name = FieldOf(system.proc / "cpuinfo", "model name").value_or("unknown");
  machine.num_cpus = topology.num_usable();
  machine.num_cores = static_cast<int>(topology.cores.size());
  const std::string cpu = "cpu" + std::to_string(topology.cpus.front());
  machine.caches = ReadCaches(system.sys / "devices" / "system" / "cpu" / cpu / "cache");
  const std::optional<std::string> memory = FieldOf(system.proc / "meminfo", "MemTotal");
  if (memory) machine.memory_bytes = ParseBytes(*memory).value_or(0);
  return machine;
}

uint64_t PeakResidentBytes(const SystemFolders& system) {
  const std::optional<std::string> peak = FieldOf(system.proc / "self" / "status", "VmHWM");
  return peak ? ParseBytes(*peak).value_or(0) : 0;
}

}  // namespace baton
