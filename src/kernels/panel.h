// Weight panels: how 16 output rows of a matrix lie in memory, the same for all instruction sets.
//
// A panel is one stream that a kernel reads from its first byte to its last.
//
// Quantized types: records of whole cache lines, each with the codes and scales of 16 output rows
// over `record_inputs` inputs. Codes go in blocks of 32 inputs = 8 groups of 4. A code of w bits is
// cut into a low plane of 2, 4 or 8 bits and a high plane of 0, 1 or 2. A plane of b bits takes b
// lines of 64 bytes per block: group g is at bit g * b % 8 of the bytes of line g * b / 8, byte
// 4 * (output row) + (input % 4). After the codes: scales, [block][16 output rows].
//   simple types: d binary16, then m binary16 if the type has minima
//   K types: sub-scales 8 bit [16 or 32 inputs][16], sub-minima 8 bit likewise, D binary16 [16],
//            Dmin binary16 [16]
// Float types: [input][16 output rows] in their own width.
//
// Output rows beyond the matrix have zero scales (float types: zeros).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "tensor/dtype.h"

namespace baton {

// Grows with every change to what is described above; saved panels carry it.
inline constexpr uint32_t kPanelLayoutVersion = 1;

inline constexpr int kPanelRows = 16;   // output rows of a panel
inline constexpr int kInputBlock = 32;  // inputs that share one activation scale
inline constexpr int kCodeGroups = 8;   // groups of 4 inputs in a block
inline constexpr int kLineBytes = 64;

// The weight types that have kernels.
enum class PanelType : int {
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kF16,
  kBF16,
  kF32,
};
inline constexpr int kNumQuantizedPanelTypes = 10;
inline constexpr int kNumPanelTypes = 13;

// The value that activations are summed with on the way to an output, besides the codes; one array
// of them lies beside the codes (kernels/quantize_rows.h). A is the sum of a block's 32 codes, A0
// and A1 the sums of its halves, s its scale. An instruction set may keep an i32 in a form of its
// own (StartsArePairs in kernels/i8dot.inl.h).
enum class SideKind : int {
  kMinus8A,        // i32 -8 A
  kMinus16A,       // i32 -16 A
  kMinus128A,      // i32 -128 A
  kScaledA,        // f32 s * float(A)
  kMinus32Halves,  // i32 -32 A0, -32 A1
  kMinus4Halves,   // i32 -4 A0, -4 A1
  kScaledHalves,   // f32 s * float(A0), s * float(A1)
};
inline constexpr int kNumSideKinds = 7;
// Side values per block and row.
constexpr int SideValues(SideKind kind) {
  return kind < SideKind::kMinus32Halves ? 1 : 2;
}

// What distinguishes the quantized types.
struct PanelFormat {
  DType dtype;
  int record_inputs;  // inputs per record
  int low_bits;       // of a code, in the low plane
  int high_bits;      // of a code, in the high plane
  int offset;         // weight = scale * (code - offset)
  int halves;         // integer sums (and weight scales) per block: 1, or 2 of 16 inputs each
  bool has_min;       // weight = scale * code + min (or - min in the K types)
  bool is_k;          // 8-bit sub-scales under one binary16 scale per record
  bool signed_sub_scales;
  SideKind side;

  constexpr int blocks() const { return record_inputs / kInputBlock; }
  constexpr int low_bytes() const { return blocks() * low_bits * kLineBytes; }
  constexpr int code_bytes() const { return blocks() * (low_bits + high_bits) * kLineBytes; }
  // Bytes of one array of scales: f16 in the simple types, sub-scales in the K types.
  constexpr int scale_bytes() const { return blocks() * halves * kPanelRows * (is_k ? 1 : 2); }
  constexpr int min_offset() const { return code_bytes() + scale_bytes(); }
  // Of D, K types only; Dmin follows.
  constexpr int super_offset() const { return code_bytes() + scale_bytes() * (has_min ? 2 : 1); }
  constexpr int record_bytes() const {
    const int super_bytes = is_k ? 2 * kPanelRows * (has_min ? 2 : 1) : 0;
    const int bytes = super_offset() + super_bytes;
    return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
  }
  constexpr int max_code() const { return (1 << (low_bits + high_bits)) - 1; }
};

// By PanelType.
inline constexpr std::array<PanelFormat, kNumQuantizedPanelTypes> kPanelFormats = {{
    {DType::kQ4_0, 64, 4, 0, 8, 1, false, false, false, SideKind::kMinus8A},
    {DType::kQ4_1, 32, 4, 0, 0, 1, true, false, false, SideKind::kScaledA},
    {DType::kQ5_0, 64, 4, 1, 16, 1, false, false, false, SideKind::kMinus16A},
    {DType::kQ5_1, 64, 4, 1, 0, 1, true, false, false, SideKind::kScaledA},
    {DType::kQ8_0, 64, 8, 0, 128, 1, false, false, false, SideKind::kMinus128A},
    {DType::kQ2_K, 256, 2, 0, 0, 2, true, true, false, SideKind::kScaledHalves},
    {DType::kQ3_K, 256, 2, 1, 4, 2, false, true, true, SideKind::kMinus4Halves},
    {DType::kQ4_K, 256, 4, 0, 0, 1, true, true, false, SideKind::kScaledA},
    {DType::kQ5_K, 256, 4, 1, 0, 1, true, true, false, SideKind::kScaledA},
    {DType::kQ6_K, 256, 4, 2, 32, 2, false, true, true, SideKind::kMinus32Halves},
}};

constexpr const PanelFormat& FormatOf(PanelType type) {
  return kPanelFormats[static_cast<size_t>(type)];
}
static_assert(FormatOf(PanelType::kQ4_0).record_bytes() == 576);
static_assert(FormatOf(PanelType::kQ4_1).record_bytes() == 320);
static_assert(FormatOf(PanelType::kQ5_0).record_bytes() == 704);
static_assert(FormatOf(PanelType::kQ5_1).record_bytes() == 768);
static_assert(FormatOf(PanelType::kQ8_0).record_bytes() == 1088);
static_assert(FormatOf(PanelType::kQ2_K).record_bytes() == 1600);
static_assert(FormatOf(PanelType::kQ3_K).record_bytes() == 1856);
static_assert(FormatOf(PanelType::kQ4_K).record_bytes() == 2368);
static_assert(FormatOf(PanelType::kQ5_K).record_bytes() == 2880);
static_assert(FormatOf(PanelType::kQ6_K).record_bytes() == 3392);

constexpr bool IsQuantized(PanelType type) {
  return static_cast<int>(type) < kNumQuantizedPanelTypes;
}

// The panel type of a tensor type, or nothing if there are no kernels for it.
constexpr std::optional<PanelType> PanelTypeOf(DType dtype) {
  for (size_t i = 0; i < kPanelFormats.size(); ++i) {
    if (kPanelFormats[i].dtype == dtype) return static_cast<PanelType>(i);
  }
  if (dtype == DType::kF16) return PanelType::kF16;
  if (dtype == DType::kBF16) return PanelType::kBF16;
  if (dtype == DType::kF32) return PanelType::kF32;
  return std::nullopt;
}

}  // namespace baton
