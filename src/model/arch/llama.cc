// Llama and the many models that are stored as it (Mistral, SmolLM2, ...).
#include <cmath>

#include "model/arch/architecture.h"
#include "model/arch/metadata.h"

namespace baton {

Result<ModelSpec> ReadLlamaSpec(const GgufFile& file) {
  const Metadata metadata(file, "llama");
  ModelSpec spec;
  if (Result<> sizes = ReadCommonSizes(metadata, spec); !sizes) return Forward(sizes);
  // The converters permute q and k, so that pairs lie side by side.
  Result<RopeSpec> rope = ReadRope(metadata, spec, RopeLayout::kInterleaved);
  if (!rope) return Forward(rope);
  spec.ropes.push_back(*std::move(rope));

  Result<int64_t> window =
      metadata.CountOrZero("attention.sliding_window", ModelLimits::kMaxContext);
  if (!window) return Forward(window);
  // No key says it; the tensors are there or not.
  const bool has_qkv_bias = file.FindTensor("blk.0.attn_q.bias") != nullptr;
  for (LayerSpec& layer : spec.layers) {
    layer.sliding_window = *window;
    layer.attention_scale = 1.0f / std::sqrt(static_cast<float>(spec.head_dim));
    layer.activation = Activation::kSilu;
    layer.has_qkv_bias = has_qkv_bias;
  }
  return spec;
}

}  // namespace baton
