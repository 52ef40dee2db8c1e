// Writing a cache of KvType::kQ8, against the rule in kv_write.h and the layout in kv_record.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "kernels/isa.h"
#include "kernels/kv_write.h"
#include "kernels/test_q8.h"
#include "tensor/aligned_buffer.h"

namespace baton {
namespace {

constexpr int kHeads = 2;
constexpr int64_t kTokens = 200;
constexpr size_t kBlocks = 4;
constexpr size_t kRecordOffset = 64;
constexpr std::byte kPattern{0x5a};

class KvWriteQ8Test : public testing::TestWithParam<int> {
 protected:
  using Memory = AlignedBuffer<std::byte>;

  KvWriteQ8Test()
      : k_(static_cast<size_t>(kTokens * kHeads * GetParam())),
        v_(k_.size()),
        record_{.head_dim = GetParam(), .type = KvType::kQ8} {
    std::mt19937 random(static_cast<uint32_t>(GetParam()));
    std::normal_distribution<float> normal;
    for (float& x : k_) x = normal(random);
    for (float& x : v_) x = 3.0f * normal(random);
    // A group of zeros, one of numbers too small for a scale, one that has but one number, halves.
    std::fill_n(Key(1, 0), 16, 0.0f);
    std::fill_n(Key(2, 0), std::min(32, GetParam()), 1e-37f);
    std::fill_n(Key(3, 1), std::min(32, GetParam()), 0.0f);
    Key(3, 1)[5] = -7.0f;
    std::fill_n(Value(4, 1), GetParam(), 0.5f / 127);
    Value(4, 1)[0] = 1.0f;
    std::fill_n(Value(5, 0), GetParam(), 0.0f);
  }

  float* Key(int64_t token, int head) { return k_.data() + (token * kHeads + head) * GetParam(); }
  float* Value(int64_t token, int head) { return v_.data() + (token * kHeads + head) * GetParam(); }

  Memory Write(Isa isa, int64_t count, int64_t piece) {
    Memory memory = *Memory::Allocate(kBlocks * BlockBytes());
    std::fill_n(memory.data(), memory.size(), kPattern);
    std::vector<std::byte*> blocks;
    for (size_t i = 0; i < kBlocks; ++i) blocks.push_back(memory.data() + i * BlockBytes());
    for (int64_t first = 0; first < count; first += piece) {
      const KvWriteSequence sequence = {.first_row = first,
                                        .num_rows = std::min(piece, count - first),
                                        .first_position = first,
                                        .blocks = blocks.data()};
      const int64_t cols = kHeads * GetParam();
      WriteKv({.table = KernelsFor(isa), .pool = *pool_},
              {.k = {k_.data(), kTokens, cols},
               .v = {v_.data(), kTokens, cols},
               .target = {.sequences = {&sequence, 1},
                          .num_kv_heads = kHeads,
                          .head_dim = GetParam(),
                          .record_offset = kRecordOffset,
                          .head_stride = record_.Bytes(),
                          .kv_type = KvType::kQ8}});
    }
    return memory;
  }

  // The record of a head in the memory of Write.
  std::byte* RecordOf(Memory& memory, int64_t block, int head) const {
    return memory.data() + static_cast<size_t>(block) * BlockBytes() + kRecordOffset +
           static_cast<size_t>(head) * record_.Bytes();
  }

  // Codes and scales of a token, as the rule has them, into a record.
  void Expect(int64_t token, int head, std::byte* record) {
    const int slot = static_cast<int>(token % kBlockTokens);
    const auto put_float = [record](size_t at, float x) {
      std::memcpy(record + at, &x, sizeof(x));
    };
    for (int c = 0; c < GetParam(); c += kKeyScaleGroup) {
      const int count = std::min(kKeyScaleGroup, GetParam() - c);
      const Q8Numbers key = ToQ8({Key(token, head) + c, static_cast<size_t>(count)});
      for (int i = 0; i < count; ++i) {
        record[record_.KeyCodeBytes(c + i, slot)] =
            static_cast<std::byte>(key.codes[static_cast<size_t>(i)] + 128);
      }
      put_float(record_.KeyScaleBytes(c / kKeyScaleGroup, slot), key.scale);
    }
    const Q8Numbers value = ToQ8({Value(token, head), static_cast<size_t>(GetParam())});
    for (int c = 0; c < GetParam(); ++c) {
      record[record_.ValueCodeBytes(c, slot)] =
          static_cast<std::byte>(value.codes[static_cast<size_t>(c)]);
    }
    put_float(record_.ValueScaleBytes(slot), value.scale);
  }

  // What codes and scales of a token stand for: key, then value, [head_dim] each.
  std::vector<float> Stored(const std::byte* record, int slot) const {
    const auto read_float = [record](size_t at) {
      float x;
      std::memcpy(&x, record + at, sizeof(x));
      return x;
    };
    std::vector<float> numbers;
    for (int c = 0; c < GetParam(); ++c) {
      const int code = static_cast<int>(record[record_.KeyCodeBytes(c, slot)]) - 128;
      numbers.push_back(static_cast<float>(code) *
                        read_float(record_.KeyScaleBytes(c / kKeyScaleGroup, slot)));
    }
    for (int c = 0; c < GetParam(); ++c) {
      const auto code = static_cast<int8_t>(record[record_.ValueCodeBytes(c, slot)]);
      numbers.push_back(static_cast<float>(code) * read_float(record_.ValueScaleBytes(slot)));
    }
    return numbers;
  }

  size_t BlockBytes() const { return kRecordOffset + kHeads * record_.Bytes(); }

  std::vector<float> k_;
  std::vector<float> v_;
  KvRecord record_;
  std::unique_ptr<ThreadPool> pool_ = *ThreadPool::Make(2);
};

TEST_P(KvWriteQ8Test, StoresCodesAndScalesAndNothingElse) {
  constexpr int64_t kWritten = 150;
  Memory got = Write(BestIsa(), kWritten, kWritten);
  Memory want = *Memory::Allocate(got.size());
  std::fill_n(want.data(), want.size(), kPattern);
  for (int64_t t = 0; t < kWritten; ++t) {
    for (int h = 0; h < kHeads; ++h) Expect(t, h, RecordOf(want, t / kBlockTokens, h));
  }
  // The statistics of full blocks have a test of their own.
  for (int64_t block = 0; block < kWritten / kBlockTokens; ++block) {
    for (int h = 0; h < kHeads; ++h) {
      const size_t at = record_.StatisticsOffsetBytes();
      std::memcpy(RecordOf(want, block, h) + at, RecordOf(got, block, h) + at,
                  record_.StatisticsBytes());
    }
  }
  EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size()), 0);
}

TEST_P(KvWriteQ8Test, StatisticsAreThoseOfWhatIsStored) {
  const size_t dim = static_cast<size_t>(GetParam());
  Memory memory = Write(BestIsa(), kTokens, kTokens);
  for (int64_t block = 0; block < kTokens / kBlockTokens; ++block) {
    for (int h = 0; h < kHeads; ++h) {
      const std::byte* record = RecordOf(memory, block, h);
      std::vector<std::vector<float>> tokens;
      std::vector<float> sums(2 * dim, 0.0f);
      for (int t = 0; t < kBlockTokens; ++t) {
        tokens.push_back(Stored(record, t));
        for (size_t c = 0; c < sums.size(); ++c) sums[c] += tokens.back()[c];
      }
      std::vector<float> means(sums.size());
      std::memcpy(means.data(), record + record_.StatisticsOffsetBytes(),
                  means.size() * sizeof(float));
      for (size_t c = 0; c < sums.size(); ++c) ASSERT_EQ(means[c], sums[c] / kBlockTokens);
      std::vector<std::pair<double, int>> order;
      for (int t = 0; t < kBlockTokens; ++t) {
        double distance = 0;
        for (size_t c = 0; c < dim; ++c) {
          const double off = static_cast<double>(tokens[static_cast<size_t>(t)][c]) -
                             static_cast<double>(means[c]);
          distance += off * off;
        }
        order.emplace_back(-distance, t);
      }
      std::sort(order.begin(), order.end());
      for (size_t i = 0; i < kFarKeyBytes; ++i) {
        const int far_key = static_cast<int>(record[record_.FarKeysOffsetBytes() + i]);
        ASSERT_EQ(far_key, i < kMaxFarKeys ? order[i].second : 0) << "place " << i;
      }
    }
  }
}

// A number that is infinite or none takes its group's scale with it, and no other's.
TEST_P(KvWriteQ8Test, WhatHasNoCodesHasNoScale) {
  Key(10, 0)[3] = std::numeric_limits<float>::infinity();
  Key(11, 1)[GetParam() - 1] = std::numeric_limits<float>::quiet_NaN();
  Value(12, 0)[7] = -std::numeric_limits<float>::infinity();
  Memory got = Write(BestIsa(), 40, 40);
  Memory want = *Memory::Allocate(got.size());
  std::fill_n(want.data(), want.size(), kPattern);
  for (int64_t t = 0; t < 40; ++t) {
    for (int h = 0; h < kHeads; ++h) Expect(t, h, RecordOf(want, 0, h));
  }
  EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size()), 0);
  const std::vector<float> token = Stored(RecordOf(got, 0, 0), 10);
  EXPECT_TRUE(std::isnan(token[0]));
  if (GetParam() > kKeyScaleGroup) {
    EXPECT_FALSE(std::isnan(token[kKeyScaleGroup]));
  }
  EXPECT_TRUE(std::isnan(Stored(RecordOf(got, 0, 0), 12).back()));
}

TEST_P(KvWriteQ8Test, PiecesAndInstructionSetsChangeNothing) {
  const Memory whole = Write(BestIsa(), kTokens, kTokens);
  for (const Isa isa : RunnableIsas()) {
    for (const int64_t piece : {1, 7, 63, 64, 65, 200}) {
      const Memory pieces = Write(isa, kTokens, piece);
      EXPECT_EQ(std::memcmp(pieces.data(), whole.data(), whole.size()), 0)
          << IsaName(isa) << " piece " << piece;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(HeadDims, KvWriteQ8Test, testing::Values(16, 48, 64, 80, 256));

}  // namespace
}  // namespace baton
