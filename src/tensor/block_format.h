// The blocks of the quantized types, byte for byte as a GGUF file has them.
//
// A block holds the codes of 32 or 256 consecutive elements of a row and the scales that turn
// codes into numbers; scales are binary16 bits (tensor/half.h). Multi-byte fields are
// little-endian and unaligned: read them with memcpy, or through these packed structs.
// Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md; each struct says its formula.
#pragma once

#include <bit>
#include <cstdint>

namespace baton {

static_assert(std::endian::native == std::endian::little, "Baton reads GGUF blocks in place");

inline constexpr int kBlock32 = 32;      // elements of a simple block
inline constexpr int kBlock256 = 256;    // elements of a K block
inline constexpr int kScaleBytesK = 12;  // packed 6-bit scales of Q3_K, Q4_K, Q5_K

#pragma pack(push, 1)

// x[i] = scale * (code[i] - 8). Low nibbles: elements 0..15, high nibbles: 16..31.
struct BlockQ4_0 {
  uint16_t scale;
  uint8_t nibbles[16];
};

// x[i] = scale * code[i] + min. Nibbles as in Q4_0.
struct BlockQ4_1 {
  uint16_t scale;
  uint16_t min;
  uint8_t nibbles[16];
};

// x[i] = scale * (code[i] - 16); bit i of high_bits (little-endian) is bit 4 of code i.
struct BlockQ5_0 {
  uint16_t scale;
  uint8_t high_bits[4];
  uint8_t nibbles[16];
};

// x[i] = scale * code[i] + min; high bits as in Q5_0.
struct BlockQ5_1 {
  uint16_t scale;
  uint16_t min;
  uint8_t high_bits[4];
  uint8_t nibbles[16];
};

// x[i] = scale * code[i].
struct BlockQ8_0 {
  uint16_t scale;
  int8_t codes[32];
};

// x = scale * low(scales[g]) * code - min * high(scales[g]) for group g of 16 elements.
// codes: two halves of 128 elements, 32 bytes each; byte b, bits 2j: element 32 j + b of the half.
struct BlockQ2_K {
  uint8_t scales[16];
  uint8_t codes[64];
  uint16_t scale;
  uint16_t min;
};

// x = scale * (scales[g] - 32) * (code - 4) for group g of 16; code = 2 low bits as in Q2_K, plus 4
// if bit (element / 32) of high_bits[element % 32] is set.
struct BlockQ3_K {
  uint8_t high_bits[32];
  uint8_t codes[64];
  uint8_t scales[kScaleBytesK];
  uint16_t scale;
};

// x = scale * scales[g] * code - min * mins[g] for group g of 32 elements. Groups 2 p and 2 p + 1
// are the low and the high nibbles of bytes 32 p .. 32 p + 31.
struct BlockQ4_K {
  uint16_t scale;
  uint16_t min;
  uint8_t scales[kScaleBytesK];
  uint8_t nibbles[128];
};

// As Q4_K; bit g of high_bits[element % 32] is bit 4 of the code.
struct BlockQ5_K {
  uint16_t scale;
  uint16_t min;
  uint8_t scales[kScaleBytesK];
  uint8_t high_bits[32];
  uint8_t nibbles[128];
};

// x = scale * scales[g] * (code - 32) for group g of 16 elements. Halves of 128 elements: element
// 32 j + b of a half has nibble j / 2 (low, high) of low_bits[64 half + 32 (j % 2) + b] and bits
// 2 j of high_bits[32 half + b].
struct BlockQ6_K {
  uint8_t low_bits[128];
  uint8_t high_bits[64];
  int8_t scales[16];
  uint16_t scale;
};

#pragma pack(pop)

static_assert(sizeof(BlockQ4_0) == 18);
static_assert(sizeof(BlockQ4_1) == 20);
static_assert(sizeof(BlockQ5_0) == 22);
static_assert(sizeof(BlockQ5_1) == 24);
static_assert(sizeof(BlockQ8_0) == 34);
static_assert(sizeof(BlockQ2_K) == 84);
static_assert(sizeof(BlockQ3_K) == 110);
static_assert(sizeof(BlockQ4_K) == 144);
static_assert(sizeof(BlockQ5_K) == 176);
static_assert(sizeof(BlockQ6_K) == 210);

// Scale and min (0..63) of group g (0..7) in the 12 packed bytes of Q4_K and Q5_K: groups 0..3 in
// the low 6 bits of bytes g and g + 4; groups 4..7 with their low 4 bits in byte g + 4 and their
// upper 2 bits on top of bytes g - 4 (scale) and g (min).
struct ScaleMin {
  uint8_t scale;
  uint8_t min;
};
constexpr ScaleMin UnpackScaleMin(const uint8_t* packed, int g) {
  if (g < 4) {
    return {.scale = static_cast<uint8_t>(packed[g] & 63),
            .min = static_cast<uint8_t>(packed[g + 4] & 63)};
  }
  return {.scale = static_cast<uint8_t>((packed[g + 4] & 15) | ((packed[g - 4] >> 6) << 4)),
          .min = static_cast<uint8_t>((packed[g + 4] >> 4) | ((packed[g] >> 6) << 4))};
}

// Scale (-32..31) of group g (0..15) in the 12 packed bytes of Q3_K: the low 4 bits are nibble
// g / 8 of byte g % 8, the upper 2 bits are pair g / 4 of byte 8 + g % 4.
constexpr int UnpackScaleQ3K(const uint8_t* packed, int g) {
  const int low = (packed[g % 8] >> (4 * (g / 8))) & 15;
  const int high = (packed[8 + g % 4] >> (2 * (g / 4))) & 3;
  return (low | (high << 4)) - 32;
}

}  // namespace baton
