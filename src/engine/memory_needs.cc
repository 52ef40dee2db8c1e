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

// A cache for one context has its size, a larger one a size of its own.
bool HasOwnSize(const MemoryNeeds& needs, int64_t context_tokens) {
  return needs.kv_tokens > context_tokens;
}

// What makes the cache as small as it must be.
std::string CacheAdvice(const MemoryNeeds& needs, int64_t kv_tokens, int64_t context_tokens) {
  if (!HasOwnSize(needs, context_tokens)) return fmt::format("--ctx {}", kv_tokens);
  if (kv_tokens >= context_tokens) return fmt::format("--kv-tokens {}", kv_tokens);
  return fmt::format("--kv-tokens {} with --ctx {}", kv_tokens, kv_tokens);
}

// What to do about needs that do not fit but for the type of the cache. The cache is large by the
// context or by itself, the workspace by the chunk.
std::string SizeAdvice(const MemoryNeeds& needs, uint64_t available_bytes, int64_t context_tokens) {
  const uint64_t fixed = needs.weight_bytes + needs.workspace_bytes;
  const uint64_t blocks = fixed < available_bytes && needs.kv_block_bytes > 0
                              ? (available_bytes - fixed) / needs.kv_block_bytes
                              : 0;
  const bool chunk_helps = needs.weight_bytes + needs.kv_bytes < available_bytes;
  if (blocks > 0) {
    const auto kv_tokens = static_cast<int64_t>(blocks) * kBlockTokens;
    return fmt::format("{} would fit{}", CacheAdvice(needs, kv_tokens, context_tokens),
                       chunk_helps ? ", or take a smaller --chunk, for less workspace" : "");
  }
  if (chunk_helps) return "take a smaller --chunk, for less workspace";
  if (needs.weight_bytes + needs.kv_block_bytes < available_bytes) {
    return HasOwnSize(needs, context_tokens) ? "take a smaller --chunk, --kv-tokens and --ctx"
                                             : "take a smaller --chunk and a smaller --ctx";
  }
  return "take a smaller model";
}

std::string Advice(const MemoryNeeds& needs, uint64_t available_bytes, int64_t context_tokens) {
  const uint64_t fixed = needs.weight_bytes + needs.workspace_bytes;
  const bool q8_fits = needs.q8_kv_bytes > 0 && fixed + needs.q8_kv_bytes <= available_bytes;
  return SizeAdvice(needs, available_bytes, context_tokens) +
         (q8_fits ? ", or take --kv-type q8, for less cache" : "");
}

}  // namespace

MemoryQuestion QuestionOf(const LoadOptions& options, int64_t context_tokens) {
  const EngineConfig config = EngineConfigOf(options, context_tokens);
  return {.kv_tokens = config.kv_tokens,
          .kv_type = options.kv_type,
          .step = StepOptionsOf(config, {.context_tokens = context_tokens,
                                         .precision = options.precision,
                                         .prefill_policy = options.prefill_policy}),
          .num_threads = options.num_threads};
}

Result<MemoryNeeds> EstimateMemory(const GgufFile& file, const ModelSpec& spec,
                                   const MemoryQuestion& question) {
  Result<BlockLayout> layout = KvLayoutOf(spec, question.kv_type);
  if (!layout) return Forward(layout);
  MemoryNeeds needs;
  for (const WeightUse& use : PlanWeights(spec)) {
    const GgufTensor* tensor = file.FindTensor(use.tensor_name);
    if (tensor != nullptr) needs.weight_bytes += PackedBytes(*tensor, use);
  }
  needs.kv_tokens = question.kv_tokens;
  needs.kv_block_bytes = layout->block_bytes();
  const auto num_blocks = static_cast<uint64_t>(NumBlocksFor(question.kv_tokens));
  needs.kv_bytes = num_blocks * needs.kv_block_bytes;
  if (question.kv_type != KvType::kQ8) {
    const Result<BlockLayout> q8 = KvLayoutOf(spec, KvType::kQ8);
    if (!q8) return Forward(q8);
    needs.q8_kv_bytes = num_blocks * q8->block_bytes();
  }
  needs.workspace_bytes = StepForward::BufferBytes(spec, question.step, question.num_threads) +
                          RowSampler::BufferBytes(question.num_threads, spec.vocab_size);
  return needs;
}

Result<> CheckMemory(const MemoryNeeds& needs, uint64_t available_bytes, int64_t context_tokens) {
  if (needs.total() <= available_bytes) return {};
  const std::string room = HasOwnSize(needs, context_tokens)
                               ? CountOf(needs.kv_tokens, "token")
                               : "a context of " + CountOf(context_tokens, "token");
  return Fail(
      ErrorCode::kExhausted,
      fmt::format("not enough memory: weights {}, KV cache {} for {}, "
                  "workspace {}, together {}; available {}; {}",
                  BytesText(needs.weight_bytes), BytesText(needs.kv_bytes), room,
                  BytesText(needs.workspace_bytes), BytesText(needs.total()),
                  BytesText(available_bytes), Advice(needs, available_bytes, context_tokens)));
}

}  // namespace baton
