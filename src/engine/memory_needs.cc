#include "engine/memory_needs.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "kernels/pack.h"
#include "model/weight_plan.h"

namespace baton {
namespace {

uint64_t PackedBytes(const GgufTensor& tensor, const WeightUse& use) {
  const std::optional<PanelType> type = PanelTypeOf(tensor.type);
  if (!use.is_matrix || !type.has_value()) {
    return static_cast<uint64_t>(use.num_columns) * sizeof(float);
  }
  const uint64_t num_panels = static_cast<uint64_t>(use.num_rows + kPanelRows - 1) / kPanelRows;
  return num_panels * static_cast<uint64_t>(PanelBytes(*type, use.num_columns));
}

// The number in a file that holds nothing else ("max" and the like count as no number).
std::optional<uint64_t> NumberIn(const char* path) {
  std::ifstream file(path);
  uint64_t value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

// What is left of a cgroup's limit, in version 2 or 1 of the interface.
std::optional<uint64_t> CgroupHeadroom() {
  struct Files {
    const char* limit;
    const char* used;
  };
  const Files versions[] = {
      {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes",
       "/sys/fs/cgroup/memory/memory.usage_in_bytes"},
  };
  for (const Files& files : versions) {
    const std::optional<uint64_t> limit = NumberIn(files.limit);
    const std::optional<uint64_t> used = NumberIn(files.used);
    if (limit.has_value() && used.has_value()) return *limit > *used ? *limit - *used : 0;
  }
  return std::nullopt;
}

std::optional<uint64_t> SystemAvailable() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  uint64_t kilobytes = 0;
  std::string unit;
  while (file >> key >> kilobytes) {
    if (key == "MemAvailable:") return kilobytes * 1024;
    std::getline(file, unit);
  }
  return std::nullopt;
}

std::string Megabytes(uint64_t bytes) {
  return fmt::format("{:.0f} MB", static_cast<double>(bytes) / 1e6);
}

}  // namespace

Result<MemoryNeeds> EstimateMemory(const GgufFile& file, const ModelSpec& spec,
                                   const MemoryQuestion& question) {
  Result<BlockLayout> layout = KvLayoutOf(spec);
  if (!layout) return Forward(layout);
  MemoryNeeds needs;
  for (const WeightUse& use : PlanWeights(spec)) {
    const GgufTensor* tensor = file.FindTensor(use.tensor_name);
    if (tensor != nullptr) needs.weight_bytes += PackedBytes(*tensor, use);
  }
  needs.kv_block_bytes = layout->block_bytes();
  needs.kv_bytes =
      static_cast<uint64_t>(NumBlocksFor(question.context_tokens)) * needs.kv_block_bytes;
  needs.workspace_bytes = StepForward::BufferBytes(spec, question.step, question.num_threads);
  return needs;
}

std::optional<uint64_t> AvailableMemory() {
  const std::optional<uint64_t> system = SystemAvailable();
  const std::optional<uint64_t> cgroup = CgroupHeadroom();
  if (!system.has_value()) return cgroup;
  return cgroup.has_value() ? std::min(*system, *cgroup) : *system;
}

Result<> CheckMemory(const MemoryNeeds& needs, uint64_t available_bytes, int64_t context_tokens) {
  if (needs.total() <= available_bytes) return {};
  const uint64_t fixed = needs.weight_bytes + needs.workspace_bytes;
  std::string advice = "; take a smaller model";
  if (fixed < available_bytes && needs.kv_block_bytes > 0) {
    const uint64_t blocks = (available_bytes - fixed) / needs.kv_block_bytes;
    if (blocks > 0) advice = fmt::format("; --ctx {} would fit", blocks * kBlockTokens);
  }
  return Fail(ErrorCode::kExhausted,
              fmt::format("not enough memory: weights {}, KV cache {} for a context of {} tokens, "
                          "workspace {}, together {}; available {}{}",
                          Megabytes(needs.weight_bytes), Megabytes(needs.kv_bytes), context_tokens,
                          Megabytes(needs.workspace_bytes), Megabytes(needs.total()),
                          Megabytes(available_bytes), advice));
}

}  // namespace baton
