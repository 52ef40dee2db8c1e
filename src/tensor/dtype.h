// The element types that a model file can name, and how many bytes they take.
//
// A type is stored in blocks of `block_elements` consecutive elements of a row; plain types have
// blocks of one. Numbers, sizes and names are those of the GGUF format.
// Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <span>
#include <string_view>

namespace baton {

// The value of an enumerator is the type's id in a GGUF file; ids that are missing here are either
// withdrawn from the format or not known.
enum class DType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ8_1 = 9,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kQ8_K = 15,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
  kNVFP4 = 40,
  kQ1_0 = 41,
};

// What is fixed about a type.
struct DTypeTraits {
  DType type;
  std::string_view name;    // as in file names and in the format's documents: "Q4_K"
  uint32_t block_elements;  // elements per block; a row holds a whole number of blocks
  uint32_t block_bytes;     // bytes per block
  bool can_dequantize;      // DequantizeRow decodes it
};

// All known types, by rising id.
std::span<const DTypeTraits> AllDTypes();

// The traits of a type.
const DTypeTraits& TraitsOf(DType type);

// The type with this GGUF id, or nothing if the id is unknown or withdrawn from the format.
std::optional<DType> DTypeFromGgufId(uint32_t id);

// The name that a withdrawn id had ("Q4_2"), or nothing; for messages.
std::optional<std::string_view> WithdrawnDTypeName(uint32_t id);

inline std::string_view DTypeName(DType type) {
  return TraitsOf(type).name;
}

// Whether Baton computes with weights of this type; the others are refused by name.
inline bool IsSupported(DType type) {
  return TraitsOf(type).can_dequantize;
}

// Whether the type stores small integer codes with scales (Q4_0 to Q6_K and their like).
inline bool IsQuantized(DType type) {
  return TraitsOf(type).block_elements > 1;
}

// The bytes of one row of `num_elements`, or nothing if that is not a whole number of blocks or
// does not fit 64 bits.
std::optional<uint64_t> RowBytes(DType type, uint64_t num_elements);

inline std::ostream& operator<<(std::ostream& out, DType type) {
  return out << DTypeName(type);
}

}  // namespace baton
