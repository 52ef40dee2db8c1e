#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "kernels/isa.h"
#include "kernels/kv_write.h"
#include "tensor/aligned_buffer.h"
#include "tensor/half.h"
#include "tensor/kv_record.h"

namespace baton {
namespace {

// Blocks of two KV heads, filled with a pattern to see what is written.
class Cache {
 public:
  static constexpr uint16_t kPattern = 0x1234;
  static constexpr size_t kRecordOffset = 64;

  Cache(int head_dim, size_t num_blocks) : layout_{head_dim} {
    memory_ = *AlignedBuffer<std::byte>::Allocate(num_blocks * BlockBytes());
    uint16_t* halves = reinterpret_cast<uint16_t*>(memory_.data());
    std::fill(halves, halves + memory_.size() / 2, kPattern);
    for (size_t i = 0; i < num_blocks; ++i) {
      blocks_.push_back(memory_.data() + (num_blocks - 1 - i) * BlockBytes());
    }
  }

  std::byte* const* blocks() { return blocks_.data(); }
  const KvRecord& layout() const { return layout_; }
  uint16_t* Record(int64_t block, int head) {
    return reinterpret_cast<uint16_t*>(blocks_[static_cast<size_t>(block)] + kRecordOffset +
                                       static_cast<size_t>(head) * layout_.Bytes());
  }
  uint16_t Key(int64_t token, int head, int c) {
    return Record(token / 64, head)[layout_.KeyIndex(c, static_cast<int>(token % 64))];
  }
  uint16_t Value(int64_t token, int head, int c) {
    return Record(token / 64, head)[layout_.ValueIndex(c, static_cast<int>(token % 64))];
  }
  // Means of K, then of V: [2][head_dim].
  const float* Means(int64_t block, int head) {
    return reinterpret_cast<const float*>(reinterpret_cast<const std::byte*>(Record(block, head)) +
                                          layout_.StatisticsOffsetBytes());
  }
  // [64]: the far keys and zeros.
  const uint8_t* FarKeys(int64_t block, int head) {
    return reinterpret_cast<const uint8_t*>(Record(block, head)) + layout_.FarKeysOffsetBytes();
  }
  bool SameBytes(const Cache& other) const {
    return std::memcmp(memory_.data(), other.memory_.data(), memory_.size()) == 0;
  }

 private:
  size_t BlockBytes() const { return kRecordOffset + 2 * layout_.Bytes(); }
  KvRecord layout_;
  AlignedBuffer<std::byte> memory_;
  std::vector<std::byte*> blocks_;
};

class KvWriteTest : public testing::TestWithParam<int> {
 protected:
  static constexpr int64_t kTokens = 200;

  KvWriteTest() : k_(kTokens * 2 * GetParam()), v_(k_.size()) {
    std::mt19937 random(GetParam());
    std::normal_distribution<float> normal;
    for (float& x : k_) x = normal(random);
    for (float& x : v_) x = 3.0f * normal(random);
    // Halfway cases, small results and overflow.
    k_[0] = 1.00048828125f;
    k_[1] = 65519.0f;
    k_[2] = 65520.0f;
    k_[3] = 3e-8f;
    k_[4] = 5.9604645e-8f;
    v_[5] = -1e-6f;
  }

  void Write(Isa isa, int64_t first, int64_t count, Cache& cache) {
    const int64_t cols = 2 * GetParam();
    const KvWriteSequence sequence = {
        .first_row = first, .num_rows = count, .first_position = first, .blocks = cache.blocks()};
    const KernelContext context = {.table = KernelsFor(isa), .pool = *pool_};
    WriteKv(context, {.k = {k_.data(), kTokens, cols},
                      .v = {v_.data(), kTokens, cols},
                      .target = {.sequences = {&sequence, 1},
                                 .num_kv_heads = 2,
                                 .head_dim = GetParam(),
                                 .record_offset = Cache::kRecordOffset,
                                 .head_stride = cache.layout().Bytes()}});
  }

  std::vector<float> k_;
  std::vector<float> v_;
  std::unique_ptr<ThreadPool> pool_ = *ThreadPool::Make(2);
};

TEST_P(KvWriteTest, StoresRoundedValuesAndMeansAndNothingElse) {
  const int head_dim = GetParam();
  Cache cache(head_dim, 4);
  Write(BestIsa(), 0, 130, cache);
  for (int64_t t = 0; t < 256; ++t) {
    for (int h = 0; h < 2; ++h) {
      for (int c = 0; c < head_dim; ++c) {
        const size_t i = static_cast<size_t>((t * 2 + h) * head_dim + c);
        ASSERT_EQ(cache.Key(t, h, c), t < 130 ? FloatToHalf(k_[i]) : Cache::kPattern)
            << "token " << t << " head " << h << " c " << c;
        ASSERT_EQ(cache.Value(t, h, c), t < 130 ? FloatToHalf(v_[i]) : Cache::kPattern)
            << "token " << t << " head " << h << " c " << c;
      }
    }
  }
  for (int64_t block = 0; block < 4; ++block) {
    for (int h = 0; h < 2; ++h) {
      const float* means = cache.Means(block, h);
      for (int c = 0; c < head_dim; ++c) {
        if (block >= 2) {  // not full yet
          uint16_t halves[2];
          std::memcpy(halves, means + c, sizeof(halves));
          ASSERT_EQ(halves[0], Cache::kPattern);
          continue;
        }
        float key_sum = 0.0f;
        float value_sum = 0.0f;
        for (int64_t t = 64 * block; t < 64 * block + 64; ++t) {
          key_sum += HalfToFloat(cache.Key(t, h, c));
          value_sum += HalfToFloat(cache.Value(t, h, c));
        }
        ASSERT_EQ(means[c], key_sum / 64.0f) << "block " << block << " head " << h << " c " << c;
        ASSERT_EQ(means[head_dim + c], value_sum / 64.0f);
      }
    }
  }
}

// By the definition, in binary64: the tokens in order of distance, of equals the lower one first.
TEST_P(KvWriteTest, FarKeysAreTheFarthestFromTheMean) {
  const int head_dim = GetParam();
  k_[2] = 1.0f;  // no infinities here
  // Two keys of equal distance, far out, in block 0 of head 1: token 50 and its mirror image 9.
  const size_t cols = static_cast<size_t>(2 * head_dim);
  for (size_t c = static_cast<size_t>(head_dim); c < cols; ++c) {
    for (size_t t = 0; t < 64; ++t) k_[t * cols + c] = 0.0f;
    k_[50 * cols + c] = 8.0f;
    k_[9 * cols + c] = -8.0f;
  }
  Cache cache(head_dim, 4);
  Write(BestIsa(), 0, kTokens, cache);
  for (int64_t block = 0; block < 3; ++block) {
    for (int h = 0; h < 2; ++h) {
      std::vector<std::pair<double, int>> order;
      for (int t = 0; t < 64; ++t) {
        double distance = 0;
        for (int c = 0; c < head_dim; ++c) {
          double mean = 0;
          for (int64_t u = 0; u < 64; ++u) {
            mean += static_cast<double>(HalfToFloat(cache.Key(64 * block + u, h, c))) / 64;
          }
          const double off =
              static_cast<double>(HalfToFloat(cache.Key(64 * block + t, h, c))) - mean;
          distance += off * off;
        }
        order.emplace_back(-distance, t);
      }
      std::sort(order.begin(), order.end());
      for (size_t i = 0; i < 64; ++i) {
        const int expected = i < 7 ? order[i].second : 0;
        ASSERT_EQ(cache.FarKeys(block, h)[i], expected)
            << "block " << block << " head " << h << " place " << i;
      }
    }
  }
  EXPECT_EQ(cache.FarKeys(0, 1)[0], 9);
  EXPECT_EQ(cache.FarKeys(0, 1)[1], 50);
  EXPECT_EQ(cache.FarKeys(0, 1)[2], 0);
}

// Infinite keys and keys that are not numbers: seven different tokens, whatever they are.
TEST_P(KvWriteTest, FarKeysOfWhatIsNotANumberAreTokensAllTheSame) {
  const int head_dim = GetParam();
  for (int64_t t = 0; t < 64; ++t) {
    k_[static_cast<size_t>(t * 2 * head_dim)] = t % 3 == 0 ? std::nanf("") : HUGE_VALF;
  }
  Cache cache(head_dim, 4);
  Write(BestIsa(), 0, 64, cache);
  std::set<int> tokens;
  for (size_t i = 0; i < 7; ++i) tokens.insert(cache.FarKeys(0, 0)[i]);
  EXPECT_EQ(tokens.size(), 7u);
  EXPECT_LT(*tokens.rbegin(), 64);
}

TEST_P(KvWriteTest, PiecesAndInstructionSetsChangeNothing) {
  Cache whole(GetParam(), 4);
  Write(BestIsa(), 0, kTokens, whole);
  for (const Isa isa : RunnableIsas()) {
    for (const int64_t piece : {1, 7, 63, 64, 65, 200}) {
      Cache cache(GetParam(), 4);
      for (int64_t first = 0; first < kTokens; first += piece) {
        Write(isa, first, std::min(piece, kTokens - first), cache);
      }
      EXPECT_TRUE(cache.SameBytes(whole)) << IsaName(isa) << " piece " << piece;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(HeadDims, KvWriteTest, testing::Values(16, 64, 80, 96, 128, 256));

}  // namespace
}  // namespace baton
