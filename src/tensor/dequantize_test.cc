#include "tensor/dequantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

namespace baton {
namespace {

// One type's entry of dequant_vectors.bin (tools/dequant_vectors.py says the format).
struct Vector {
  DType type = DType::kF32;
  std::vector<std::byte> bytes;
  std::vector<float> values;
};

std::vector<Vector> ReadVectors() {
  std::ifstream in(std::string(BATON_TEST_DATA) + "/gguf/dequant_vectors.bin", std::ios::binary);
  std::vector<Vector> vectors;
  uint32_t head[3];
  while (in.read(reinterpret_cast<char*>(head), sizeof(head))) {
    Vector vector;
    vector.type = DTypeFromGgufId(head[0]).value();
    vector.bytes.resize(head[1]);
    vector.values.resize(head[2]);
    in.read(reinterpret_cast<char*>(vector.bytes.data()), head[1]);
    in.read(reinterpret_cast<char*>(vector.values.data()),
            4 * static_cast<std::streamsize>(head[2]));
    EXPECT_TRUE(in.good());
    vectors.push_back(std::move(vector));
  }
  return vectors;
}

// Equal bits, except that any NaN does for a NaN.
void ExpectSame(const std::vector<float>& got, const std::vector<float>& expected, DType type) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(expected[i])) {
      ASSERT_TRUE(std::isnan(got[i])) << type << " at " << i << ": " << got[i];
      continue;
    }
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(expected[i]))
        << type << " at " << i << ": " << got[i] << " against " << expected[i];
  }
}

TEST(DequantizeRow, EqualsTheIndependentDecoderInEveryBit) {
  std::set<DType> seen;
  for (const Vector& vector : ReadVectors()) {
    ASSERT_EQ(RowBytes(vector.type, vector.values.size()), vector.bytes.size());
    std::vector<float> out(vector.values.size(), -1.0f);
    ASSERT_TRUE(DequantizeRow(vector.type, vector.bytes.data(), out).has_value());
    ExpectSame(out, vector.values, vector.type);
    seen.insert(vector.type);
  }
  for (const DTypeTraits& traits : AllDTypes()) {
    EXPECT_EQ(seen.contains(traits.type), traits.can_dequantize) << traits.name;
  }
}

TEST(DequantizeRow, AnyAddressWillDo) {
  for (const Vector& vector : ReadVectors()) {
    std::vector<std::byte> shifted(vector.bytes.size() + 1);
    std::memcpy(shifted.data() + 1, vector.bytes.data(), vector.bytes.size());
    std::vector<float> out(vector.values.size());
    ASSERT_TRUE(DequantizeRow(vector.type, shifted.data() + 1, out).has_value());
    ExpectSame(out, vector.values, vector.type);
  }
}

TEST(DequantizeRow, RefusesOtherTypesByName) {
  const std::byte block[256] = {};
  std::vector<float> out(256);
  for (const DTypeTraits& traits : AllDTypes()) {
    if (traits.can_dequantize) continue;
    const Result<void> result = DequantizeRow(traits.type, block, out);
    ASSERT_FALSE(result.has_value()) << traits.name;
    EXPECT_EQ(result.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(result.error().message.find(traits.name), std::string::npos);
  }
}

}  // namespace
}  // namespace baton
