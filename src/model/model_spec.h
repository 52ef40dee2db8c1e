// What a model is, as data: sizes, and for each layer what the decoder does there.
//
// model/arch/<name> fills a ModelSpec from a file's metadata; the decoder reads nothing else. A new
// architecture is one file there, and no condition on its name anywhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/rope.h"
#include "kernels/row_ops.h"
#include "tensor/kv_record.h"

namespace baton {

// Bounds on what metadata may claim; far above any model in use, far below overflow.
struct ModelLimits {
  static constexpr int64_t kMaxLayers = 1024;
  static constexpr int64_t kMaxWidth = 1 << 20;  // hidden and feed-forward sizes
  static constexpr int64_t kMaxHeads = 4096;
  static constexpr int64_t kMaxHeadDim = baton::kMaxHeadDim;
  static constexpr int64_t kMaxVocabulary = 1 << 24;
  static constexpr int64_t kMaxContext = int64_t{1} << 24;
};

// One layer of the decoder. The order of its operations is fixed:
//   x += post_norm( attention( norm(x) ) );  x += post_norm( feed_forward( norm(x) ) )
struct LayerSpec {
  // Which of ModelSpec::ropes turns the queries and keys here.
  int rope_index = 0;
  // Tokens a row sees, its own included; 0 for all before it.
  int64_t sliding_window = 0;
  // Factor of q·k, before the softmax.
  float attention_scale = 0;
  // Logits of the softmax become cap * tanh(logit / cap); 0 for none.
  float attention_soft_cap = 0;
  Activation activation = Activation::kSilu;
  bool has_qk_norm = false;  // RMS norm of each head of q and k, before RoPE
  bool has_qkv_bias = false;
  bool has_post_attention_norm = false;  // RMS norm of what attention adds
  bool has_post_feed_forward_norm = false;
  bool has_fused_qkv = false;      // the file holds q, k, v as the rows of one matrix
  bool has_fused_gate_up = false;  // likewise gate and up
};

// A RoPE and what it needs to own.
struct RopeSpec {
  RopeParams params;                     // frequency_factors is left empty
  std::vector<float> frequency_factors;  // [rotary_dim / 2] or empty
};

struct ModelSpec {
  std::string architecture;  // general.architecture
  std::string name;          // general.name, may be empty
  int64_t hidden_size = 0;
  int64_t feed_forward_size = 0;
  int64_t vocab_size = 0;
  int64_t trained_context = 0;  // tokens
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  float norm_epsilon = 0;
  float embedding_scale = 1;
  float residual_scale = 1;  // of what attention and feed-forward add
  float logit_scale = 1;
  float logit_soft_cap = 0;  // 0 for none
  bool has_tied_output = false;
  std::vector<RopeSpec> ropes;
  std::vector<LayerSpec> layers;

  int num_layers() const { return static_cast<int>(layers.size()); }
  int64_t query_size() const { return int64_t{num_heads} * head_dim; }
  int64_t kv_size() const { return int64_t{num_kv_heads} * head_dim; }
};

}  // namespace baton
