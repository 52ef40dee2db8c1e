#include "kernels/attention_inputs.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "kernels/isa.h"
#include "kernels/row_ops.h"
#include "tensor/aligned_buffer.h"
#include "tensor/kv_record.h"

namespace baton {
namespace {

constexpr int kKvHeads = 2;
constexpr int kGroup = 3;
constexpr int kHeadDim = 64;
constexpr float kEpsilon = 1e-6f;

// Two prefills that begin and end within blocks, and two decodes, one of which fills its block.
struct Piece {
  int64_t first_position;
  int64_t num_rows;
};
constexpr Piece kPieces[] = {{40, 150}, {63, 1}, {0, 64}, {130, 1}};
constexpr int64_t kBlocksOfSequence = 4;

std::vector<float> RandomFloats(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

// q, k, v of all pieces and the blocks that they go to.
class Rows {
 public:
  explicit Rows(KvType kv_type) : record_{.head_dim = kHeadDim, .type = kv_type} {
    for (const Piece& piece : kPieces) {
      for (int64_t i = 0; i < piece.num_rows; ++i) positions_.push_back(piece.first_position + i);
    }
    q_ = RandomFloats(num_rows() * kKvHeads * kGroup * kHeadDim, 1);
    k_ = RandomFloats(num_rows() * kKvHeads * kHeadDim, 2);
    v_ = RandomFloats(num_rows() * kKvHeads * kHeadDim, 3);
    const size_t block_bytes = kKvHeads * record_.Bytes();
    memory_ = *AlignedBytes::Allocate(std::size(kPieces) * kBlocksOfSequence * block_bytes);
    std::memset(memory_.data(), 0, memory_.size());
    for (size_t i = 0; i < std::size(kPieces) * kBlocksOfSequence; ++i) {
      blocks_.push_back(memory_.data() + i * block_bytes);
    }
    int64_t first_row = 0;
    for (size_t i = 0; i < std::size(kPieces); ++i) {
      sequences_.push_back({.first_row = first_row,
                            .num_rows = kPieces[i].num_rows,
                            .first_position = kPieces[i].first_position,
                            .blocks = blocks_.data() + i * kBlocksOfSequence});
      first_row += kPieces[i].num_rows;
    }
  }

  int64_t num_rows() const { return static_cast<int64_t>(positions_.size()); }
  std::span<const int64_t> positions() const { return positions_; }
  View2<float> q() { return {q_.data(), num_rows(), kKvHeads * kGroup * kHeadDim}; }
  View2<float> k() { return {k_.data(), num_rows(), kKvHeads * kHeadDim}; }
  View2<float> v() { return {v_.data(), num_rows(), kKvHeads * kHeadDim}; }
  KvTarget target() const {
    return {.sequences = sequences_,
            .num_kv_heads = kKvHeads,
            .head_dim = kHeadDim,
            .record_offset = 0,
            .head_stride = record_.Bytes(),
            .kv_type = record_.type};
  }
  bool Same(const Rows& other) const {
    return q_ == other.q_ && k_ == other.k_ && v_ == other.v_ &&
           std::memcmp(memory_.data(), other.memory_.data(), memory_.size()) == 0;
  }

 private:
  std::vector<int64_t> positions_;
  std::vector<float> q_, k_, v_;
  AlignedBytes memory_;
  std::vector<std::byte*> blocks_;
  std::vector<KvWriteSequence> sequences_;
  KvRecord record_;
};

class AttentionInputsTest : public testing::TestWithParam<RopeLayout> {};

TEST_P(AttentionInputsTest, AreTheOperationsOneAfterTheOther) {
  const std::vector<float> q_bias = RandomFloats(kKvHeads * kGroup * kHeadDim, 4);
  const std::vector<float> kv_bias = RandomFloats(kKvHeads * kHeadDim, 5);
  const std::vector<float> norm = RandomFloats(kHeadDim, 6);
  const RopeTable table =
      *RopeTable::Make({.head_dim = kHeadDim, .rotary_dim = 48, .layout = GetParam()});
  for (const Isa isa : RunnableIsas()) {
    for (const int threads : {1, 2, 3}) {
      for (const bool has_bias : {false, true}) {
        for (const bool has_norm : {false, true}) {
          SCOPED_TRACE(testing::Message() << IsaName(isa) << ", threads " << threads << ", bias "
                                          << has_bias << ", norm " << has_norm);
          const auto pool = *ThreadPool::Make(threads);
          const KernelContext context = {.table = KernelsFor(isa), .pool = *pool};
          // The type matters to the last operation alone.
          const KvType kv_type = has_bias ? KvType::kQ8 : KvType::kF16;
          Rows expected(kv_type);
          Rows got(kv_type);
          std::vector<float> cos_sin(static_cast<size_t>(got.num_rows() * table.RowFloats()));
          const View2<float> turns(cos_sin.data(), got.num_rows(), table.RowFloats());
          ComputeRopeRows(context,
                          {.table = table, .positions = got.positions(), .cos_sin = turns});
          const View1<const float> q_biases(q_bias.data(), std::ssize(q_bias));
          const View1<const float> kv_biases(kv_bias.data(), std::ssize(kv_bias));
          const View1<const float> norms(norm.data(), kHeadDim);
          const View1<const float> none;
          for (const View2<float> x : {expected.q(), expected.k()}) {
            const bool is_q = x.data() == expected.q().data();
            if (has_bias) AddBias(context, {.bias = is_q ? q_biases : kv_biases, .rows = x});
            if (has_norm) RmsNorm(context, {.in = x, .weight = norms, .eps = kEpsilon, .out = x});
            ApplyRope(context, {.table = table, .cos_sin = turns, .x = x});
          }
          if (has_bias) AddBias(context, {.bias = kv_biases, .rows = expected.v()});
          WriteKv(context, {.k = expected.k(), .v = expected.v(), .target = expected.target()});

          FinishAttentionInputs(context, {.q = got.q(),
                                          .k = got.k(),
                                          .v = got.v(),
                                          .q_bias = has_bias ? q_biases : none,
                                          .k_bias = has_bias ? kv_biases : none,
                                          .v_bias = has_bias ? kv_biases : none,
                                          .q_norm = has_norm ? norms : none,
                                          .k_norm = has_norm ? norms : none,
                                          .norm_eps = kEpsilon,
                                          .rope = table,
                                          .cos_sin = turns,
                                          .target = got.target()});
          EXPECT_TRUE(got.Same(expected));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, AttentionInputsTest,
                         testing::Values(RopeLayout::kHalves, RopeLayout::kInterleaved),
                         [](const auto& test) {
                           return test.param == RopeLayout::kHalves ? "Halves" : "Interleaved";
                         });

}  // namespace
}  // namespace baton
