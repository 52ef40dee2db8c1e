// Small models with random weights, made in memory: every architecture and weight type, for tests.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "format/gguf_writer.h"
#include "tensor/block_format.h"
#include "tensor/dtype.h"
#include "tensor/half.h"

namespace baton {

struct TinyModel {
  std::string architecture = "llama";
  DType type = DType::kF32;  // of the matrices; norms are F32
  int layers = 2;
  int hidden = 64;
  int feed_forward = 128;
  int heads = 4;
  int kv_heads = 2;
  int head_dim = 16;
  int vocabulary = 320;
  int context = 2048;
  int sliding_window = 0;  // 0: the key is left out
  bool has_output = false;
  uint64_t seed = 1;
  // Called last; may change keys.
  std::function<void(GgufWriter&)> edit = nullptr;
};

namespace tiny {

// `min_steps`: the minimum, in steps of the scale.
template <typename Block>
void SetScale(std::byte* at, float scale, float min_steps) {
  Block block;
  std::memcpy(&block, at, sizeof block);
  block.scale = FloatToHalf(scale);
  if constexpr (requires { block.min; }) block.min = FloatToHalf(scale * min_steps);
  std::memcpy(at, &block, sizeof block);
}

// Random codes under a scale that keeps values near 1 / sqrt(row length).
inline void FillBlock(DType type, float scale, std::byte* at) {
  switch (type) {
    case DType::kQ4_0:
      return SetScale<BlockQ4_0>(at, scale / 8, 0.0f);
    case DType::kQ4_1:
      return SetScale<BlockQ4_1>(at, -scale / 8, -7.5f);
    case DType::kQ5_0:
      return SetScale<BlockQ5_0>(at, scale / 16, 0.0f);
    case DType::kQ5_1:
      return SetScale<BlockQ5_1>(at, -scale / 16, -15.5f);
    case DType::kQ8_0:
      return SetScale<BlockQ8_0>(at, scale / 128, 0.0f);
    case DType::kQ2_K:
      return SetScale<BlockQ2_K>(at, scale / 16, 1.5f);
    case DType::kQ3_K:
      return SetScale<BlockQ3_K>(at, scale / 128, 0.0f);
    case DType::kQ4_K:
      return SetScale<BlockQ4_K>(at, scale / 300, 7.5f);
    case DType::kQ5_K:
      return SetScale<BlockQ5_K>(at, scale / 600, 15.5f);
    case DType::kQ6_K:
      return SetScale<BlockQ6_K>(at, scale / 4096, 0.0f);
    default:
      CHECK(false);
  }
}

inline void FillTensor(const GgufTensorSpec& spec, RandomStream& random, std::span<std::byte> out) {
  const bool is_norm = spec.dims.size() == 1;
  const float scale = 1.0f / std::sqrt(static_cast<float>(spec.dims[0]));
  if (IsQuantized(spec.type)) {
    for (std::byte& byte : out) byte = static_cast<std::byte>(random.NextU32());
    const DTypeTraits& traits = TraitsOf(spec.type);
    for (size_t at = 0; at < out.size(); at += traits.block_bytes) {
      const auto jitter = static_cast<float>(0.5 + random.NextUniform());
      FillBlock(spec.type, scale * jitter, out.data() + at);
    }
    return;
  }
  const size_t width = TraitsOf(spec.type).block_bytes;
  for (size_t at = 0; at < out.size(); at += width) {
    const auto noise = static_cast<float>(random.NextNormal());
    const float value = is_norm ? 1.0f + 0.1f * noise : scale * noise;
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint16_t half =
        spec.type == DType::kF16 ? FloatToHalf(value) : static_cast<uint16_t>(bits >> 16);
    std::memcpy(out.data() + at, width == 4 ? static_cast<const void*>(&bits) : &half, width);
  }
}

inline std::vector<GgufTensorSpec> Tensors(const TinyModel& tiny) {
  const auto size = [](int n) { return static_cast<uint64_t>(n); };
  const uint64_t hidden = size(tiny.hidden);
  const uint64_t inner = size(tiny.feed_forward);
  const uint64_t q = size(tiny.heads * tiny.head_dim);
  const uint64_t kv = size(tiny.kv_heads * tiny.head_dim);
  std::vector<GgufTensorSpec> specs = {
      {"token_embd.weight", tiny.type, {hidden, size(tiny.vocabulary)}},
      {"output_norm.weight", DType::kF32, {hidden}}};
  if (tiny.has_output)
    specs.push_back({"output.weight", tiny.type, {hidden, size(tiny.vocabulary)}});
  const bool is_gemma3 = tiny.architecture == "gemma3";
  for (int i = 0; i < tiny.layers; ++i) {
    const std::string blk = "blk." + std::to_string(i) + ".";
    specs.push_back({blk + "attn_norm.weight", DType::kF32, {hidden}});
    specs.push_back({blk + "attn_q.weight", tiny.type, {hidden, q}});
    specs.push_back({blk + "attn_k.weight", tiny.type, {hidden, kv}});
    specs.push_back({blk + "attn_v.weight", tiny.type, {hidden, kv}});
    specs.push_back({blk + "attn_output.weight", tiny.type, {q, hidden}});
    specs.push_back({blk + "ffn_norm.weight", DType::kF32, {hidden}});
    specs.push_back({blk + "ffn_gate.weight", tiny.type, {hidden, inner}});
    specs.push_back({blk + "ffn_up.weight", tiny.type, {hidden, inner}});
    specs.push_back({blk + "ffn_down.weight", tiny.type, {inner, hidden}});
    if (!is_gemma3) continue;
    specs.push_back({blk + "attn_q_norm.weight", DType::kF32, {size(tiny.head_dim)}});
    specs.push_back({blk + "attn_k_norm.weight", DType::kF32, {size(tiny.head_dim)}});
    specs.push_back({blk + "post_attention_norm.weight", DType::kF32, {hidden}});
    specs.push_back({blk + "post_ffw_norm.weight", DType::kF32, {hidden}});
  }
  return specs;
}

inline void SetKeys(const TinyModel& tiny, GgufWriter& writer) {
  const std::string prefix = tiny.architecture + ".";
  const auto set = [&](const char* suffix, int value) {
    writer.SetUint32(prefix + suffix, static_cast<uint32_t>(value));
  };
  writer.SetString("general.architecture", tiny.architecture);
  writer.SetString("general.name", "tiny");
  set("block_count", tiny.layers);
  set("context_length", tiny.context);
  set("embedding_length", tiny.hidden);
  set("feed_forward_length", tiny.feed_forward);
  set("attention.head_count", tiny.heads);
  set("attention.head_count_kv", tiny.kv_heads);
  set("attention.key_length", tiny.head_dim);
  set("attention.value_length", tiny.head_dim);
  writer.SetFloat32(prefix + "attention.layer_norm_rms_epsilon", 1e-5f);
  if (tiny.sliding_window > 0) set("attention.sliding_window", tiny.sliding_window);
}

}  // namespace tiny

// Writes the model's file into memory. Requires: the tensors' rows are whole blocks of the type.
inline std::vector<std::byte> MakeTinyModel(const TinyModel& tiny) {
  GgufWriter writer({});
  tiny::SetKeys(tiny, writer);
  const std::vector<GgufTensorSpec> specs = tiny::Tensors(tiny);
  for (const GgufTensorSpec& spec : specs) CHECK(writer.AddTensor(spec).has_value());
  if (tiny.edit) tiny.edit(writer);
  Result<std::vector<std::byte>> bytes =
      writer.ToBytes([&](const GgufWriter::Piece& piece) -> Result<> {
        CHECK_EQ(piece.offset, 0u);  // tiny tensors come in one piece
        RandomStream random({.seed = tiny.seed, .stream = piece.index});
        tiny::FillTensor(specs[piece.index], random, piece.out);
        return {};
      });
  CHECK(bytes.has_value());
  return *std::move(bytes);
}

}  // namespace baton
