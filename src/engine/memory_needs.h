// What a model will take of the machine's memory, before any of it is allocated.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "engine/loaded_model.h"
#include "format/gguf.h"
#include "forward/step_forward.h"
#include "model/model_spec.h"

namespace baton {

// Units: bytes.
struct MemoryNeeds {
  uint64_t weight_bytes = 0;     // repacked
  uint64_t kv_bytes = 0;         // of the whole cache
  int64_t kv_tokens = 0;         // that it has room for
  uint64_t kv_block_bytes = 0;   // of 64 tokens
  uint64_t q8_kv_bytes = 0;      // of the whole cache with --kv-type q8; 0: it is of that type
  uint64_t workspace_bytes = 0;  // of a step and of the sampler

  uint64_t total() const { return weight_bytes + kv_bytes + workspace_bytes; }
};

struct MemoryQuestion {
  int64_t kv_tokens = 0;  // of the whole cache
  KvType kv_type = KvType::kF16;
  StepForwardOptions step;
  int num_threads = 1;
};

// What LoadModel and an Engine with these options will ask for, with a context of so many tokens.
MemoryQuestion QuestionOf(const LoadOptions& options, int64_t context_tokens);

// Tensors that the file lacks count as nothing. Errors: invalid (sizes that no cache can have).
Result<MemoryNeeds> EstimateMemory(const GgufFile& file, const ModelSpec& spec,
                                   const MemoryQuestion& question);

// Whether the needs fit. Errors: exhausted, with all numbers and what to do: the
// largest context that fits, or the largest cache where it is of more than one context, a smaller
// chunk, 8 bits, or a smaller model.
Result<> CheckMemory(const MemoryNeeds& needs, uint64_t available_bytes, int64_t context_tokens);

}  // namespace baton
