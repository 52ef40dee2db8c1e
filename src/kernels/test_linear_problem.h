// For tests of linear layers: matrices as files have them, with random codes, rows of inputs, a run
// of the operator that sees what it may not touch, and how far from binary64 it may be.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "kernels/linear.h"
#include "kernels/linear_ref.h"
#include "tensor/dequantize.h"
#include "tensor/half.h"

namespace baton {

// Where a block has its binary16 scales (scale, then min) and its codes; from the format's
// document.
struct BlockFields {
  DType type;
  int scale;
  int min;  // -1: none
  int codes_begin;
  int codes_end;
};

// Null for float weights.
inline const BlockFields* BlockFieldsOf(DType type) {
  static constexpr BlockFields kFields[] = {
      {DType::kQ4_0, 0, -1, 2, 18},   {DType::kQ4_1, 0, 2, 4, 20},   {DType::kQ5_0, 0, -1, 2, 22},
      {DType::kQ5_1, 0, 2, 4, 24},    {DType::kQ8_0, 0, -1, 2, 34},  {DType::kQ2_K, 80, 82, 16, 80},
      {DType::kQ3_K, 108, -1, 0, 96}, {DType::kQ4_K, 0, 2, 16, 144}, {DType::kQ5_K, 0, 2, 16, 176},
      {DType::kQ6_K, 208, -1, 0, 192}};
  for (const BlockFields& fields : kFields) {
    if (fields.type == type) return &fields;
  }
  return nullptr;
}

inline void PutHalf(std::byte* p, uint16_t half) {
  std::memcpy(p, &half, sizeof(half));
}

// A matrix as a file has it.
struct FileMatrix {
  DType type;
  int64_t num_outputs;
  int64_t num_inputs;
  std::vector<std::byte> bytes;

  int64_t row_bytes() const { return static_cast<int64_t>(bytes.size()) / num_outputs; }
  WeightSource source() const {
    return {.type = type, .bytes = bytes, .num_outputs = num_outputs, .num_inputs = num_inputs};
  }
  std::vector<float> Row(int64_t o) const {
    std::vector<float> row(static_cast<size_t>(num_inputs));
    EXPECT_TRUE(DequantizeRow(type, bytes.data() + o * row_bytes(), row));
    return row;
  }
  // What the sums of an output are made of, by magnitude: a weight may be the small difference of a
  // product and a min.
  std::vector<double> RowMagnitudes(int64_t o) const {
    std::vector<double> magnitudes;
    for (const float x : Row(o)) magnitudes.push_back(std::fabs(static_cast<double>(x)));
    const BlockFields* fields = BlockFieldsOf(type);
    if (fields == nullptr || fields->min < 0) return magnitudes;
    FileMatrix mins = {.type = type, .num_outputs = 1, .num_inputs = num_inputs, .bytes = {}};
    mins.bytes.assign(bytes.begin() + o * row_bytes(), bytes.begin() + (o + 1) * row_bytes());
    const size_t block_bytes = TraitsOf(type).block_bytes;
    for (size_t i = 0; i < mins.bytes.size(); ++i) {
      const int at = static_cast<int>(i % block_bytes);
      if (at >= fields->codes_begin && at < fields->codes_end) mins.bytes[i] = std::byte{0};
    }
    const std::vector<float> only_min = mins.Row(0);
    for (size_t i = 0; i < magnitudes.size(); ++i) {
      magnitudes[i] += 2.0 * std::fabs(static_cast<double>(only_min[i]));
    }
    return magnitudes;
  }
};

// Random codes and sub-scales under sane binary16 scales.
inline FileMatrix RandomFileMatrix(DType type, int64_t num_outputs, int64_t num_inputs,
                                   std::mt19937& random) {
  std::normal_distribution<float> normal;
  FileMatrix matrix{
      .type = type, .num_outputs = num_outputs, .num_inputs = num_inputs, .bytes = {}};
  const uint64_t row_bytes = RowBytes(type, static_cast<uint64_t>(num_inputs)).value();
  matrix.bytes.resize(row_bytes * static_cast<uint64_t>(num_outputs));
  const BlockFields* fields = BlockFieldsOf(type);
  if (fields == nullptr) {
    const size_t size = TraitsOf(type).block_bytes;
    for (size_t i = 0; i < matrix.bytes.size(); i += size) {
      const float x = normal(random);
      if (type == DType::kF16) PutHalf(&matrix.bytes[i], FloatToHalf(x));
      if (type == DType::kBF16) PutHalf(&matrix.bytes[i], FloatToBf16(x));
      if (type == DType::kF32) std::memcpy(&matrix.bytes[i], &x, sizeof(x));
    }
    return matrix;
  }
  for (std::byte& b : matrix.bytes) b = static_cast<std::byte>(random());
  for (size_t i = 0; i < matrix.bytes.size(); i += TraitsOf(type).block_bytes) {
    PutHalf(&matrix.bytes[i] + fields->scale, FloatToHalf(0.01f * normal(random)));
    if (fields->min >= 0) PutHalf(&matrix.bytes[i] + fields->min, FloatToHalf(normal(random)));
  }
  return matrix;
}

// [num_rows][num_inputs], with outliers, as activations have them.
inline std::vector<float> RandomInputRows(int64_t num_rows, int64_t num_inputs,
                                          std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> rows(static_cast<size_t>(num_rows * num_inputs));
  for (float& x : rows) x = normal(random) * (random() % 50 == 0 ? 30.0f : 1.0f);
  return rows;
}

// Linear over rows [num_rows][num_inputs]; outputs dense. Also checks that nothing beside them was
// written, and that nothing was read before it was.
inline std::vector<float> RunLinearRows(const KernelContext& context, const WeightMatrix& weights,
                                        std::span<const float> rows, Precision precision) {
  constexpr float kUntouched = 12345.678f;
  const int64_t num_inputs = weights.num_inputs();
  const int64_t num_outputs = weights.num_outputs();
  const int64_t num_rows = static_cast<int64_t>(rows.size()) / num_inputs;
  const RowInputsShape shape{.num_rows = num_rows,
                             .num_inputs = num_inputs,
                             .precision = precision,
                             .forms = weights.input_forms()};
  const auto buffer = AlignedBytes::Allocate(RowInputsBytes(shape));
  CHECK(buffer.has_value());
  std::ranges::fill(std::span(buffer->data(), buffer->size()), std::byte{0xff});  // NaN
  const RowInputs inputs = QuantizeRows(context, {rows.data(), num_rows, num_inputs}, shape,
                                        {buffer->data(), buffer->size()});
  const int64_t stride = num_outputs + 3;
  std::vector<float> padded(static_cast<size_t>(num_rows * stride), kUntouched);
  Linear(context, weights, inputs, {padded.data(), num_rows, num_outputs, stride});
  std::vector<float> out;
  for (int64_t r = 0; r < num_rows; ++r) {
    const float* row = padded.data() + r * stride;
    out.insert(out.end(), row, row + num_outputs);
    for (int64_t i = num_outputs; i < stride; ++i) EXPECT_EQ(row[i], kUntouched);
  }
  return out;
}

// Whether the outputs of rows [num_rows][num_inputs] are as near to binary64 as their roundings
// allow.
inline void ExpectLinearNearReference(const FileMatrix& matrix, std::span<const float> rows,
                                      Precision precision, std::span<const float> out) {
  const size_t num_inputs = static_cast<size_t>(matrix.num_inputs);
  const size_t num_rows = rows.size() / num_inputs;
  // Roundings on the way of a term: at most 4 of its own, one per later fma of the accumulator, and
  // the weight's own in the reference.
  const double fmas = IsQuantized(matrix.type) ? 4.0 * static_cast<double>(num_inputs) / 32
                                               : static_cast<double>(num_inputs);
  const double epsilon = (fmas + 6.0) * 0x1p-24;
  // A product of scales below 2^-126 is flushed to zero, and with it all of its block's integer.
  const double largest_sum = precision == Precision::kFast ? 0x1p19 : 0x1p27;
  const double flushed = (fmas + 6.0) * 0x1p-126 * largest_sum;
  std::vector<std::vector<double>> inputs;
  for (size_t r = 0; r < num_rows; ++r) {
    const std::span<const float> row = rows.subspan(r * num_inputs, num_inputs);
    if (!IsQuantized(matrix.type)) {
      inputs.emplace_back(row.begin(), row.end());
    } else {
      inputs.push_back(precision == Precision::kFast
                           ? ReferenceQuantized(row, 127.0f, 0x1p-119f)
                           : ReferenceQuantized(row, 32512.0f, 0x1p-111f));
    }
  }
  for (int64_t o = 0; o < matrix.num_outputs; ++o) {
    const std::vector<float> weights = matrix.Row(o);
    const std::vector<double> magnitudes = matrix.RowMagnitudes(o);
    for (size_t r = 0; r < num_rows; ++r) {
      const ReferenceSum sum = ReferenceDot(weights, magnitudes, inputs[r]);
      const double got = out[r * static_cast<size_t>(matrix.num_outputs) + static_cast<size_t>(o)];
      ASSERT_NEAR(got, sum.value, epsilon * sum.magnitude + flushed)
          << "output " << o << " row " << r;
    }
  }
}

// Equal bits; NaNs are equal to each other, whatever their sign and payload.
inline bool SameNumbers(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(a, b, [](float x, float y) {
    return (std::isnan(x) && std::isnan(y)) ||
           std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
  });
}

}  // namespace baton
