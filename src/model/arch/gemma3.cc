// Gemma 3: sliding and global layers by turns, each with a RoPE of its own; norms before and after.
#include <cmath>

#include "model/arch/architecture.h"
#include "model/arch/metadata.h"

namespace baton {
namespace {

// What the metadata of the files in circulation leave out. Source: the Gemma 3 report.
constexpr int64_t kPattern = 6;  // every sixth layer is global
constexpr float kGlobalRopeBase = 1000000.0f;
constexpr float kLocalRopeBase = 10000.0f;
constexpr int kLayersOf27B = 62;

constexpr int kGlobalRope = 0;
constexpr int kLocalRope = 1;

}  // namespace

Result<ModelSpec> ReadGemma3Spec(const GgufFile& file) {
  const Metadata metadata(file, "gemma3");
  ModelSpec spec;
  if (Result<> sizes = ReadCommonSizes(metadata, spec); !sizes) return Forward(sizes);

  // Scaling holds for the global layers only.
  Result<RopeSpec> global = ReadRope(metadata, spec, RopeLayout::kHalves);
  if (!global) return Forward(global);
  if (!metadata.Has("rope.freq_base")) global->params.base = kGlobalRopeBase;
  Result<float> local_base = metadata.Positive("rope.freq_base_swa", kLocalRopeBase);
  if (!local_base) return Forward(local_base);
  RopeSpec local;
  local.params.head_dim = global->params.head_dim;
  local.params.rotary_dim = global->params.rotary_dim;
  local.params.layout = RopeLayout::kHalves;
  local.params.base = *local_base;
  spec.ropes = {*std::move(global), std::move(local)};

  Result<int64_t> window = metadata.Size("attention.sliding_window", ModelLimits::kMaxContext);
  if (!window) return Forward(window);
  Result<int64_t> pattern =
      metadata.SizeOr("attention.sliding_window_pattern", ModelLimits::kMaxLayers, kPattern);
  if (!pattern) return Forward(pattern);
  Result<float> soft_cap = metadata.Positive("final_logit_softcapping", 0.0f);
  if (!soft_cap) return Forward(soft_cap);
  spec.logit_soft_cap = *soft_cap;
  spec.embedding_scale = std::sqrt(static_cast<float>(spec.hidden_size));

  // The 27B model scales by its width per head, not by its head size.
  const float scaled_dim = spec.num_layers() == kLayersOf27B
                               ? static_cast<float>(spec.hidden_size / spec.num_heads)
                               : static_cast<float>(spec.head_dim);
  for (int i = 0; i < spec.num_layers(); ++i) {
    LayerSpec& layer = spec.layers[i];
    const bool is_global = (i + 1) % *pattern == 0;
    layer.rope_index = is_global ? kGlobalRope : kLocalRope;
    layer.sliding_window = is_global ? 0 : *window;
    layer.attention_scale = 1.0f / std::sqrt(scaled_dim);
    layer.activation = Activation::kGeluTanh;
    layer.has_qk_norm = true;
    layer.has_post_attention_norm = true;
    layer.has_post_feed_forward_norm = true;
  }
  return spec;
}

}  // namespace baton
