#include "tensor/dequantize.h"

#include <cstring>
#include <string>

#include "base/check.h"
#include "tensor/block_format.h"
#include "tensor/half.h"

namespace baton {
namespace {

void DecodeF32(const std::byte* src, std::span<float> out) {
  std::memcpy(out.data(), src, out.size_bytes());
}

template <float (*kConvert)(uint16_t)>
void Decode16Bit(const std::byte* src, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, src + 2 * i, sizeof(bits));
    out[i] = kConvert(bits);
  }
}

// The 4-bit codes of a block of 32: low nibbles first.
int Nibble32(const uint8_t* nibbles, int i) {
  return i < 16 ? nibbles[i] & 15 : nibbles[i - 16] >> 4;
}

int HighBit32(const uint8_t* high_bits, int i) {
  return (high_bits[i / 8] >> (i % 8)) & 1;
}

void DecodeBlock(const BlockQ4_0& block, float* out) {
  const float scale = HalfToFloat(block.scale);
  for (int i = 0; i < kBlock32; ++i) {
    out[i] = scale * static_cast<float>(Nibble32(block.nibbles, i) - 8);
  }
}

void DecodeBlock(const BlockQ4_1& block, float* out) {
  const float scale = HalfToFloat(block.scale);
  const float min = HalfToFloat(block.min);
  for (int i = 0; i < kBlock32; ++i) {
    out[i] = scale * static_cast<float>(Nibble32(block.nibbles, i)) + min;
  }
}

void DecodeBlock(const BlockQ5_0& block, float* out) {
  const float scale = HalfToFloat(block.scale);
  for (int i = 0; i < kBlock32; ++i) {
    const int code = Nibble32(block.nibbles, i) | (HighBit32(block.high_bits, i) << 4);
    out[i] = scale * static_cast<float>(code - 16);
  }
}

void DecodeBlock(const BlockQ5_1& block, float* out) {
  const float scale = HalfToFloat(block.scale);
  const float min = HalfToFloat(block.min);
  for (int i = 0; i < kBlock32; ++i) {
    const int code = Nibble32(block.nibbles, i) | (HighBit32(block.high_bits, i) << 4);
    out[i] = scale * static_cast<float>(code) + min;
  }
}

void DecodeBlock(const BlockQ8_0& block, float* out) {
  const float scale = HalfToFloat(block.scale);
  for (int i = 0; i < kBlock32; ++i) out[i] = scale * static_cast<float>(block.codes[i]);
}

// The 2-bit code of element i of 256 in Q2_K and Q3_K.
int Pair256(const uint8_t* codes, int i) {
  return (codes[32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32))) & 3;
}

void DecodeBlock(const BlockQ2_K& block, float* out) {
  const float scale = HalfToFloat(block.scale);
  const float min = HalfToFloat(block.min);
  for (int i = 0; i < kBlock256; ++i) {
    const uint8_t packed = block.scales[i / 16];
    const float group_scale = scale * static_cast<float>(packed & 15);
    const float group_min = min * static_cast<float>(packed >> 4);
    out[i] = group_scale * static_cast<float>(Pair256(block.codes, i)) - group_min;
  }
}

void DecodeBlock(const BlockQ3_K& block, float* out) {
  const float scale = HalfToFloat(block.scale);
  for (int i = 0; i < kBlock256; ++i) {
    const float group_scale = scale * static_cast<float>(UnpackScaleQ3K(block.scales, i / 16));
    const int high = (block.high_bits[i % 32] >> (i / 32)) & 1;
    out[i] = group_scale * static_cast<float>(Pair256(block.codes, i) + 4 * high - 4);
  }
}

// The 4-bit code of element i of 256 in Q4_K and Q5_K.
int Nibble256(const uint8_t* nibbles, int i) {
  return (nibbles[32 * (i / 64) + i % 32] >> (4 * (i % 64 / 32))) & 15;
}

void DecodeBlock(const BlockQ4_K& block, float* out) {
  const float scale = HalfToFloat(block.scale);
  const float min = HalfToFloat(block.min);
  for (int i = 0; i < kBlock256; ++i) {
    const ScaleMin group = UnpackScaleMin(block.scales, i / 32);
    const float group_scale = scale * static_cast<float>(group.scale);
    const float group_min = min * static_cast<float>(group.min);
    out[i] = group_scale * static_cast<float>(Nibble256(block.nibbles, i)) - group_min;
  }
}

void DecodeBlock(const BlockQ5_K& block, float* out) {
  const float scale = HalfToFloat(block.scale);
  const float min = HalfToFloat(block.min);
  for (int i = 0; i < kBlock256; ++i) {
    const ScaleMin group = UnpackScaleMin(block.scales, i / 32);
    const float group_scale = scale * static_cast<float>(group.scale);
    const float group_min = min * static_cast<float>(group.min);
    const int high = (block.high_bits[i % 32] >> (i / 32)) & 1;
    const int code = Nibble256(block.nibbles, i) | (high << 4);
    out[i] = group_scale * static_cast<float>(code) - group_min;
  }
}

void DecodeBlock(const BlockQ6_K& block, float* out) {
  const float scale = HalfToFloat(block.scale);
  for (int i = 0; i < kBlock256; ++i) {
    const int half = i / 128;
    const int quarter = i % 128 / 32;
    const int byte = i % 32;
    const int low = block.low_bits[64 * half + 32 * (quarter % 2) + byte] >> (4 * (quarter / 2));
    const int high = block.high_bits[32 * half + byte] >> (2 * quarter);
    const int code = (low & 15) | ((high & 3) << 4);
    const float group_scale = scale * static_cast<float>(block.scales[i / 16]);
    out[i] = group_scale * static_cast<float>(code - 32);
  }
}

template <typename Block, int kElements>
void DecodeBlocks(const std::byte* src, std::span<float> out) {
  const size_t num_blocks = out.size() / kElements;
  for (size_t b = 0; b < num_blocks; ++b) {
    Block block;
    std::memcpy(&block, src + b * sizeof(Block), sizeof(Block));
    DecodeBlock(block, out.data() + b * kElements);
  }
}

using DecodeFunction = void (*)(const std::byte*, std::span<float>);

DecodeFunction DecoderOf(DType type) {
  switch (type) {
    case DType::kF32:
      return DecodeF32;
    case DType::kF16:
      return Decode16Bit<HalfToFloat>;
    case DType::kBF16:
      return Decode16Bit<Bf16ToFloat>;
    case DType::kQ4_0:
      return DecodeBlocks<BlockQ4_0, kBlock32>;
    case DType::kQ4_1:
      return DecodeBlocks<BlockQ4_1, kBlock32>;
    case DType::kQ5_0:
      return DecodeBlocks<BlockQ5_0, kBlock32>;
    case DType::kQ5_1:
      return DecodeBlocks<BlockQ5_1, kBlock32>;
    case DType::kQ8_0:
      return DecodeBlocks<BlockQ8_0, kBlock32>;
    case DType::kQ2_K:
      return DecodeBlocks<BlockQ2_K, kBlock256>;
    case DType::kQ3_K:
      return DecodeBlocks<BlockQ3_K, kBlock256>;
    case DType::kQ4_K:
      return DecodeBlocks<BlockQ4_K, kBlock256>;
    case DType::kQ5_K:
      return DecodeBlocks<BlockQ5_K, kBlock256>;
    case DType::kQ6_K:
      return DecodeBlocks<BlockQ6_K, kBlock256>;
    default:
      return nullptr;
  }
}

}  // namespace

Result<void> DequantizeRow(DType type, const std::byte* src, std::span<float> out) {
  const DecodeFunction decode = DecoderOf(type);
  if (decode == nullptr) {
    return Fail(
        ErrorCode::kUnavailable,
        "tensor type " + std::string(DTypeName(type)) +
            " is not supported: convert the model to a supported type such as Q4_K or Q8_0");
  }
  CHECK_EQ(out.size() % TraitsOf(type).block_elements, 0u);
  if (!out.empty()) decode(src, out);
  return {};
}

}  // namespace baton
