#include "engine/memory_needs.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/number_text.h"
#include "engine/engine_config.h"
#include "engine/row_sampler.h"
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

// What to do about needs that do not fit. The context has the cache, the chunk the workspace.
std::string Advice(const MemoryNeeds& needs, uint64_t available_bytes) {
  const uint64_t fixed = needs.weight_bytes + needs.workspace_bytes;
  const uint64_t blocks = fixed < available_bytes && needs.kv_block_bytes > 0
                              ? (available_bytes - fixed) / needs.kv_block_bytes
                              : 0;
  const bool chunk_helps = needs.weight_bytes + needs.kv_bytes < available_bytes;
  if (blocks > 0) {
    return fmt::format("--ctx {} would fit{}", blocks * kBlockTokens,
                       chunk_helps ? ", or take a smaller --chunk, for less workspace" : "");
  }
  if (chunk_helps) return "take a smaller --chunk, for less workspace";
  if (needs.weight_bytes + needs.kv_block_bytes < available_bytes) {
    return "take a smaller --chunk and a smaller --ctx";
  }
  return "take a smaller model";
}

}  // namespace

MemoryQuestion QuestionOf(const LoadOptions& options, int64_t context_tokens) {
  const EngineConfig config = EngineConfigOf(options, context_tokens);
  return {.kv_tokens = config.kv_tokens,
          .step = StepOptionsOf(config, {.context_tokens = context_tokens,
                                         .precision = options.precision,
                                         .prefill_policy = options.prefill_policy}),
          .num_threads = options.num_threads};
}

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
  needs.kv_bytes = static_cast<uint64_t>(NumBlocksFor(question.kv_tokens)) * needs.kv_block_bytes;
  needs.workspace_bytes = StepForward::BufferBytes(spec, question.step, question.num_threads) +
                          RowSampler::BufferBytes(question.num_threads, spec.vocab_size);
  return needs;
}

Result<> CheckMemory(const MemoryNeeds& needs, uint64_t available_bytes, int64_t context_tokens) {
  if (needs.total() <= available_bytes) return {};
  return Fail(ErrorCode::kExhausted,
              fmt::format("not enough memory: weights {}, KV cache {} for a context of {}, "
                          "workspace {}, together {}; available {}; {}",
                          BytesText(needs.weight_bytes), BytesText(needs.kv_bytes),
                          CountOf(context_tokens, "token"), BytesText(needs.workspace_bytes),
                          BytesText(needs.total()), BytesText(available_bytes),
                          Advice(needs, available_bytes)));
}

}  // namespace baton
