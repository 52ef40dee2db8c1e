#include "bench/machine_text.h"

#include <fmt/format.h>

#include "base/number_text.h"
#include "base/wrapped_text.h"
#include "kernels/isa.h"

namespace baton {
namespace {

constexpr size_t kValueColumn = 13;

// In the largest unit that leaves a whole number.
std::string SizeText(uint64_t bytes) {
  if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  return fmt::format("{} KiB", bytes >> 10);
}

}  // namespace

std::string MachineAsText(const Machine& machine, size_t columns) {
  std::string caches;
  for (const Cache& cache : machine.caches) {
    const std::string shared =
        cache.num_sharing > 1 ? fmt::format(" shared by {} CPUs", cache.num_sharing) : "";
    caches += fmt::format("{}L{} {}{}", caches.empty() ? "" : ", ", cache.level,
                          SizeText(cache.bytes), shared);
  }
  std::string isas;
  for (const Isa isa : RunnableIsas()) {
    isas += (isas.empty() ? "" : ", ") + std::string(IsaName(isa));
  }
  return ReportLine("CPU",
                    fmt::format("{}, {} to use ({})", machine.cpu_name, machine.num_cpus,
                                CountOf(machine.num_cores, "core")),
                    columns) +
         ReportLine("caches", caches.empty() ? "unknown" : caches, columns) +
         ReportLine(
             "memory",
             fmt::format("{:.1f} GiB", static_cast<double>(machine.memory_bytes) / (1 << 30)),
             columns) +
         ReportLine("instructions", isas, columns);
}

std::string ReportLine(std::string_view label, std::string_view value, size_t columns) {
  return LabelledLine(label, value, {.columns = columns, .indent = kValueColumn});
}

std::string ReportLegend(std::string_view text, size_t columns) {
  return WrapWords(text, {.columns = columns, .indent = 0}) + "\n";
}

std::string ReportNotes(const std::vector<std::string>& notes, size_t columns) {
  std::string text;
  for (const std::string& note : notes) {
    text += WrapWords("note: " + note, {.columns = columns, .indent = 2}) + "\n";
  }
  return text;
}

nlohmann::ordered_json MachineAsJson(const Machine& machine) {
  using Json = nlohmann::ordered_json;
  Json caches = Json::array();
  for (const Cache& cache : machine.caches) {
    caches.push_back(
        {{"level", cache.level}, {"bytes", cache.bytes}, {"shared_by", cache.num_sharing}});
  }
  Json isas = Json::array();
  for (const Isa isa : RunnableIsas()) isas.push_back(IsaName(isa));
  return {{"cpu", machine.cpu_name}, {"cpus", machine.num_cpus},       {"cores", machine.num_cores},
          {"caches", caches},        {"memory", machine.memory_bytes}, {"instruction_sets", isas}};
}

}  // namespace baton
