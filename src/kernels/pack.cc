#include "kernels/pack.h"

#include <algorithm>
#include <cstring>

#include "tensor/block_format.h"
#include "tensor/half.h"

namespace baton {
namespace {

// What the formats of model files have in common: unsigned codes of up to 8 bits, and scales per
// block (simple types) or per group of 16 or 32 (K types).
struct PlainBlock {
  uint8_t codes[kBlock256];
  uint16_t scale;
  uint16_t min;
  uint8_t sub_scales[16];  // the bits, signed or not
  uint8_t sub_mins[16];
};

int Nibble32(const uint8_t* nibbles, int i) {
  return i < 16 ? nibbles[i] & 15 : nibbles[i - 16] >> 4;
}
int Bit32(const uint8_t* bits, int i) {
  return (bits[i / 8] >> (i % 8)) & 1;
}
int Pair256(const uint8_t* codes, int i) {
  return (codes[32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32))) & 3;
}
int Bit256(const uint8_t* bits, int i) {
  return (bits[i % 32] >> (i / 32)) & 1;
}
int Nibble256(const uint8_t* nibbles, int i) {
  return (nibbles[32 * (i / 64) + i % 32] >> (4 * (i % 64 / 32))) & 15;
}

int CodeAt(const BlockQ4_0& block, int i) {
  return Nibble32(block.nibbles, i);
}
int CodeAt(const BlockQ4_1& block, int i) {
  return Nibble32(block.nibbles, i);
}
int CodeAt(const BlockQ5_0& block, int i) {
  return Nibble32(block.nibbles, i) | (Bit32(block.high_bits, i) << 4);
}
int CodeAt(const BlockQ5_1& block, int i) {
  return Nibble32(block.nibbles, i) | (Bit32(block.high_bits, i) << 4);
}
int CodeAt(const BlockQ8_0& block, int i) {
  return block.codes[i] + 128;
}
int CodeAt(const BlockQ2_K& block, int i) {
  return Pair256(block.codes, i);
}
int CodeAt(const BlockQ3_K& block, int i) {
  return Pair256(block.codes, i) | (Bit256(block.high_bits, i) << 2);
}
int CodeAt(const BlockQ4_K& block, int i) {
  return Nibble256(block.nibbles, i);
}
int CodeAt(const BlockQ5_K& block, int i) {
  return Nibble256(block.nibbles, i) | (Bit256(block.high_bits, i) << 4);
}
int CodeAt(const BlockQ6_K& block, int i) {
  const int half = i / 128;
  const int quarter = i % 128 / 32;
  const int low = block.low_bits[64 * half + 32 * (quarter % 2) + i % 32] >> (4 * (quarter / 2));
  const int high = block.high_bits[32 * half + i % 32] >> (2 * quarter);
  return (low & 15) | ((high & 3) << 4);
}

template <typename Block>
void ReadScales(const Block& block, PlainBlock& plain) {
  plain.scale = block.scale;
  if constexpr (requires { block.min; }) plain.min = block.min;
}
void ReadSubScales(const BlockQ2_K& block, PlainBlock& plain) {
  for (int g = 0; g < 16; ++g) {
    plain.sub_scales[g] = block.scales[g] & 15;
    plain.sub_mins[g] = block.scales[g] >> 4;
  }
}
void ReadSubScales(const BlockQ3_K& block, PlainBlock& plain) {
  for (int g = 0; g < 16; ++g) {
    plain.sub_scales[g] = static_cast<uint8_t>(UnpackScaleQ3K(block.scales, g));
  }
}
template <typename Block>  // Q4_K, Q5_K
void ReadSubScales(const Block& block, PlainBlock& plain) {
  for (int g = 0; g < 8; ++g) {
    const ScaleMin scale_min = UnpackScaleMin(block.scales, g);
    plain.sub_scales[g] = scale_min.scale;
    plain.sub_mins[g] = scale_min.min;
  }
}
void ReadSubScales(const BlockQ6_K& block, PlainBlock& plain) {
  std::memcpy(plain.sub_scales, block.scales, sizeof(block.scales));
}

template <typename Block>
void ReadBlock(const std::byte* bytes, PlainBlock& plain) {
  constexpr bool kIsK = requires(Block b) {
    b.scales;
  };
  Block block;
  std::memcpy(&block, bytes, sizeof(block));
  for (int i = 0; i < (kIsK ? kBlock256 : kBlock32); ++i) {
    plain.codes[i] = static_cast<uint8_t>(CodeAt(block, i));
  }
  ReadScales(block, plain);
  if constexpr (kIsK) ReadSubScales(block, plain);
}

void WriteHalf(uint8_t* p, uint16_t half) {
  std::memcpy(p, &half, sizeof(half));
}
uint16_t ReadHalf(const uint8_t* p) {
  uint16_t half;
  std::memcpy(&half, p, sizeof(half));
  return half;
}

// Where input k (0..31) of output row `row` has its bits in a plane of `bits` bits.
struct Place {
  int byte;
  int shift;
};
constexpr Place PlaceOf(int bits, int k, int row) {
  const int group_bit = k / 4 * bits;
  return {.byte = group_bit / 8 * kLineBytes + 4 * row + k % 4, .shift = group_bit % 8};
}

// Sets a code in the planes of block `block` of a zeroed record.
void WriteCode(const PanelFormat& format, uint8_t* record, int block, int k, int row, int code) {
  const Place low = PlaceOf(format.low_bits, k, row);
  uint8_t* low_plane = record + block * format.low_bits * kLineBytes;
  const int low_code = code & ((1 << format.low_bits) - 1);
  low_plane[low.byte] = static_cast<uint8_t>(low_plane[low.byte] | (low_code << low.shift));
  if (format.high_bits == 0) return;
  const Place high = PlaceOf(format.high_bits, k, row);
  uint8_t* high_plane = record + format.low_bytes() + block * format.high_bits * kLineBytes;
  const int high_code = code >> format.low_bits;
  high_plane[high.byte] = static_cast<uint8_t>(high_plane[high.byte] | (high_code << high.shift));
}

int ReadCode(const PanelFormat& format, const uint8_t* record, int block, int k, int row) {
  const Place low = PlaceOf(format.low_bits, k, row);
  const uint8_t* low_plane = record + block * format.low_bits * kLineBytes;
  int code = (low_plane[low.byte] >> low.shift) & ((1 << format.low_bits) - 1);
  if (format.high_bits != 0) {
    const Place high = PlaceOf(format.high_bits, k, row);
    const uint8_t* high_plane = record + format.low_bytes() + block * format.high_bits * kLineBytes;
    const int bits = (high_plane[high.byte] >> high.shift) & ((1 << format.high_bits) - 1);
    code |= bits << format.low_bits;
  }
  return code;
}

// Packs one row; a template, so that the format is known and the loops over codes are fast.
template <PanelType kType, typename Block>
void PackRow(const std::byte* source, int64_t num_inputs, int row, uint8_t* panel) {
  constexpr PanelFormat kFormat = FormatOf(kType);
  constexpr int kInputs = kFormat.is_k ? kBlock256 : kBlock32;
  for (int64_t first = 0; first < num_inputs; first += kInputs) {
    PlainBlock plain;
    ReadBlock<Block>(source + first / kInputs * static_cast<int64_t>(sizeof(Block)), plain);
    uint8_t* record = panel + first / kFormat.record_inputs * kFormat.record_bytes();
    const int first_block = static_cast<int>(first % kFormat.record_inputs / kInputBlock);
    for (int i = 0; i < kInputs; ++i) {
      WriteCode(kFormat, record, first_block + i / kInputBlock, i % kInputBlock, row,
                plain.codes[i]);
    }
    uint8_t* scales = record + kFormat.code_bytes();
    uint8_t* mins = record + kFormat.min_offset();
    if constexpr (!kFormat.is_k) {
      const int at = 2 * (first_block * kPanelRows + row);
      WriteHalf(scales + at, plain.scale);
      if constexpr (kFormat.has_min) WriteHalf(mins + at, plain.min);
    } else {
      for (int g = 0; g < kFormat.blocks() * kFormat.halves; ++g) {
        scales[g * kPanelRows + row] = plain.sub_scales[g];
        if constexpr (kFormat.has_min) mins[g * kPanelRows + row] = plain.sub_mins[g];
      }
      uint8_t* super = record + kFormat.super_offset() + 2 * row;
      WriteHalf(super, plain.scale);
      if constexpr (kFormat.has_min) WriteHalf(super + 2 * kPanelRows, plain.min);
    }
  }
}

using PackRowFn = void (*)(const std::byte*, int64_t, int, uint8_t*);

PackRowFn PackRowOf(PanelType type) {
  switch (type) {
    case PanelType::kQ4_0:
      return PackRow<PanelType::kQ4_0, BlockQ4_0>;
    case PanelType::kQ4_1:
      return PackRow<PanelType::kQ4_1, BlockQ4_1>;
    case PanelType::kQ5_0:
      return PackRow<PanelType::kQ5_0, BlockQ5_0>;
    case PanelType::kQ5_1:
      return PackRow<PanelType::kQ5_1, BlockQ5_1>;
    case PanelType::kQ8_0:
      return PackRow<PanelType::kQ8_0, BlockQ8_0>;
    case PanelType::kQ2_K:
      return PackRow<PanelType::kQ2_K, BlockQ2_K>;
    case PanelType::kQ3_K:
      return PackRow<PanelType::kQ3_K, BlockQ3_K>;
    case PanelType::kQ4_K:
      return PackRow<PanelType::kQ4_K, BlockQ4_K>;
    case PanelType::kQ5_K:
      return PackRow<PanelType::kQ5_K, BlockQ5_K>;
    case PanelType::kQ6_K:
      return PackRow<PanelType::kQ6_K, BlockQ6_K>;
    default:
      return nullptr;
  }
}

int64_t FloatBytes(PanelType type) {
  return type == PanelType::kF32 ? 4 : 2;
}

// Packs numbers of the size of T. A few inputs of all rows at a time, so that the lines, which each
// row writes a part of, stay in the nearest cache.
template <typename T>
void PackFloats(const PanelSource& source, uint8_t* panel) {
  constexpr int64_t kInputsAtOnce = 64;
  constexpr int64_t kSize = sizeof(T);
  for (int64_t first = 0; first < source.num_inputs; first += kInputsAtOnce) {
    const int64_t end = std::min(first + kInputsAtOnce, source.num_inputs);
    for (int row = 0; row < source.num_rows; ++row) {
      const std::byte* from = source.rows + row * source.row_bytes;
      for (int64_t k = first; k < end; ++k) {
        std::memcpy(panel + (k * kPanelRows + row) * kSize, from + k * kSize, sizeof(T));
      }
    }
  }
}

// The scale and the min that a code of a block is decoded with.
struct ScaleAndMin {
  float scale;
  float min;
};
ScaleAndMin ScaleAt(const PanelFormat& format, const uint8_t* record, int block, int k, int row) {
  const uint8_t* scales = record + format.code_bytes();
  const uint8_t* mins = record + format.min_offset();
  if (!format.is_k) {
    const int at = 2 * (block * kPanelRows + row);
    return {.scale = HalfToFloat(ReadHalf(scales + at)),
            .min = format.has_min ? HalfToFloat(ReadHalf(mins + at)) : 0.0f};
  }
  const int group = block * format.halves + k / (kInputBlock / format.halves);
  const int at = group * kPanelRows + row;
  const uint8_t* super = record + format.super_offset() + 2 * row;
  const int sub_scale = format.signed_sub_scales ? static_cast<int8_t>(scales[at]) : scales[at];
  ScaleAndMin result{.scale = HalfToFloat(ReadHalf(super)) * static_cast<float>(sub_scale),
                     .min = 0.0f};
  if (format.has_min) {
    result.min = HalfToFloat(ReadHalf(super + 2 * kPanelRows)) * static_cast<float>(mins[at]);
  }
  return result;
}

}  // namespace

int64_t PanelBytes(PanelType type, int64_t num_inputs) {
  if (IsQuantized(type)) {
    const PanelFormat& format = FormatOf(type);
    const int64_t records = (num_inputs + format.record_inputs - 1) / format.record_inputs;
    return records * format.record_bytes();
  }
  const int64_t bytes = num_inputs * kPanelRows * FloatBytes(type);
  return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
}

void PackPanel(PanelType type, const PanelSource& source, uint8_t* panel) {
  const PackRowFn pack_row = PackRowOf(type);
  if (pack_row == nullptr) {
    return FloatBytes(type) == 4 ? PackFloats<uint32_t>(source, panel)
                                 : PackFloats<uint16_t>(source, panel);
  }
  for (int row = 0; row < source.num_rows; ++row) {
    pack_row(source.rows + row * source.row_bytes, source.num_inputs, row, panel);
  }
}

void UnpackPanelRow(PanelType type, const uint8_t* panel, int row, std::span<float> out) {
  const int64_t num_inputs = static_cast<int64_t>(out.size());
  if (!IsQuantized(type)) {
    for (int64_t i = 0; i < num_inputs; ++i) {
      const uint8_t* p = panel + (i * kPanelRows + row) * FloatBytes(type);
      float& x = out[static_cast<size_t>(i)];
      if (type == PanelType::kF16) x = HalfToFloat(ReadHalf(p));
      if (type == PanelType::kBF16) x = Bf16ToFloat(ReadHalf(p));
      if (type == PanelType::kF32) std::memcpy(&x, p, sizeof(x));
    }
    return;
  }
  const PanelFormat& format = FormatOf(type);
  for (int64_t i = 0; i < num_inputs; ++i) {
    const uint8_t* record = panel + i / format.record_inputs * format.record_bytes();
    const int block = static_cast<int>(i % format.record_inputs / kInputBlock);
    const int k = static_cast<int>(i % kInputBlock);
    const ScaleAndMin at = ScaleAt(format, record, block, k, row);
    const int code = ReadCode(format, record, block, k, row) - format.offset;
    float x = at.scale * static_cast<float>(code);
    if (format.has_min) x = format.is_k ? x - at.min : x + at.min;
    out[static_cast<size_t>(i)] = x;
  }
}

}  // namespace baton
