#include "bench/random_weights.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "tensor/block_format.h"

namespace baton {
namespace {

constexpr int64_t kDistinctRows = 64;

// A fast generator of numbers without meaning (splitmix64).
class Stream {
 public:
  explicit Stream(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

void FillRandom(Stream& stream, std::span<std::byte> bytes) {
  for (size_t i = 0; i < bytes.size(); i += 8) {
    const uint64_t word = stream.Next();
    std::memcpy(bytes.data() + i, &word, std::min<size_t>(8, bytes.size() - i));
  }
}

// Where a block has binary16 scales; they become 2^-8 to 2^-7.
struct ScalePlaces {
  size_t offsets[2];
  int count;
};
ScalePlaces ScalesOf(DType type) {
  switch (type) {
    case DType::kQ4_0:
      return {{offsetof(BlockQ4_0, scale)}, 1};
    case DType::kQ4_1:
      return {{offsetof(BlockQ4_1, scale), offsetof(BlockQ4_1, min)}, 2};
    case DType::kQ5_0:
      return {{offsetof(BlockQ5_0, scale)}, 1};
    case DType::kQ5_1:
      return {{offsetof(BlockQ5_1, scale), offsetof(BlockQ5_1, min)}, 2};
    case DType::kQ8_0:
      return {{offsetof(BlockQ8_0, scale)}, 1};
    case DType::kQ2_K:
      return {{offsetof(BlockQ2_K, scale), offsetof(BlockQ2_K, min)}, 2};
    case DType::kQ3_K:
      return {{offsetof(BlockQ3_K, scale)}, 1};
    case DType::kQ4_K:
      return {{offsetof(BlockQ4_K, scale), offsetof(BlockQ4_K, min)}, 2};
    case DType::kQ5_K:
      return {{offsetof(BlockQ5_K, scale), offsetof(BlockQ5_K, min)}, 2};
    case DType::kQ6_K:
      return {{offsetof(BlockQ6_K, scale)}, 1};
    default:
      return {{}, 0};
  }
}

void SetScales(DType type, std::span<std::byte> rows) {
  const ScalePlaces places = ScalesOf(type);
  const size_t block_bytes = TraitsOf(type).block_bytes;
  for (size_t block = 0; block + block_bytes <= rows.size(); block += block_bytes) {
    for (int i = 0; i < places.count; ++i) {
      std::byte* at = rows.data() + block + places.offsets[i];
      uint16_t bits = 0;
      std::memcpy(&bits, at, sizeof(bits));
      bits = static_cast<uint16_t>((bits & 0x03ff) | 0x1c00);
      std::memcpy(at, &bits, sizeof(bits));
    }
  }
}

// Random bits become numbers of magnitude 1/16 to 1/8.
template <typename Word>
void SetExponents(std::span<std::byte> rows, Word keep, Word exponent) {
  for (size_t i = 0; i + sizeof(Word) <= rows.size(); i += sizeof(Word)) {
    Word word = 0;
    std::memcpy(&word, rows.data() + i, sizeof(word));
    word = static_cast<Word>((word & keep) | exponent);
    std::memcpy(rows.data() + i, &word, sizeof(word));
  }
}

}  // namespace

void FillWeights(const WeightFill& fill, std::span<std::byte> bytes) {
  const std::optional<uint64_t> row_bytes =
      RowBytes(fill.type, static_cast<uint64_t>(fill.num_inputs));
  CHECK(row_bytes.has_value());
  CHECK_EQ(bytes.size() % *row_bytes, 0u);
  const size_t distinct =
      std::min(bytes.size(), static_cast<size_t>(*row_bytes) * static_cast<size_t>(kDistinctRows));
  const std::span<std::byte> rows = bytes.first(distinct);
  Stream stream(fill.seed);
  FillRandom(stream, rows);
  if (fill.type == DType::kF16) {
    SetExponents<uint16_t>(rows, 0x83ff, 0x2c00);
  } else if (fill.type == DType::kBF16) {
    SetExponents<uint16_t>(rows, 0x807f, 0x3d80);
  } else if (fill.type == DType::kF32) {
    SetExponents<uint32_t>(rows, 0x807fffffu, 0x3d800000u);
  } else {
    SetScales(fill.type, rows);
  }
  for (size_t done = distinct; done < bytes.size();) {
    const size_t size = std::min(done, bytes.size() - done);
    std::memcpy(bytes.data() + done, bytes.data(), size);
    done += size;
  }
}

void FillFloats(uint64_t seed, std::span<float> values) {
  Stream stream(seed);
  for (float& value : values) value = static_cast<float>(stream.Next() >> 40) * 0x1p-22f - 2.0f;
}

void FillHalves(uint64_t seed, std::span<uint16_t> values) {
  Stream stream(seed);
  for (uint16_t& value : values) {
    value = static_cast<uint16_t>((stream.Next() >> 48 & 0x83ff) | 0x3800);
  }
}

void FillRecords(uint64_t seed, const KvRecord& record, std::span<std::byte> bytes) {
  FillHalves(seed, {reinterpret_cast<uint16_t*>(bytes.data()), bytes.size() / sizeof(uint16_t)});
  if (record.type != KvType::kQ8) return;
  // Those are codes now; scales from 1/256 to 2/256.
  const size_t count = static_cast<size_t>(record.KeyScaleGroups() + 1) * kBlockTokens;
  for (size_t at = 0; at < bytes.size(); at += record.Bytes()) {
    float* scales = reinterpret_cast<float*>(bytes.data() + at + record.KeyScaleBytes(0, 0));
    for (size_t i = 0; i < count; ++i) scales[i] = static_cast<float>(16 + i * 5 % 16) / 4096.0f;
  }
}

}  // namespace baton
