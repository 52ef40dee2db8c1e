// For tests of attention: a sequence of random queries, keys and values, and its blocks, laid out
// here from tensor/kv_record.h alone (not by the kernels under test).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/attention_decode.h"
#include "kernels/attention_prefill.h"
#include "kernels/test_q8.h"
#include "tensor/aligned_buffer.h"
#include "tensor/half.h"

namespace baton {

struct AttentionProblemArgs {
  AttentionShape shape;
  int64_t num_tokens = 0;
  uint32_t seed = 1;
  float query_range = 1.0f;
  KvType kv_type = KvType::kF16;
};

// One sequence with queries for all of its tokens. Unused slots of the last block hold NaN.
class AttentionProblem {
 public:
  explicit AttentionProblem(const AttentionProblemArgs& args)
      : shape_(args.shape),
        num_tokens_(args.num_tokens),
        layout_{.head_dim = args.shape.head_dim, .type = args.kv_type},
        q_(static_cast<size_t>(num_tokens_ * q_cols())),
        keys_(static_cast<size_t>(num_tokens_ * args.shape.num_kv_heads * args.shape.head_dim)),
        values_(keys_.size()) {
    std::mt19937 random(args.seed);
    std::normal_distribution<float> normal;
    for (float& x : q_) x = args.query_range * normal(random);
    for (float& x : keys_) x = HalfToFloat(FloatToHalf(normal(random)));
    for (float& x : values_) x = HalfToFloat(FloatToHalf(normal(random)));
    const size_t num_blocks = static_cast<size_t>((num_tokens_ + kBlockTokens - 1) / kBlockTokens);
    std::vector<size_t> order(num_blocks);
    for (size_t i = 0; i < num_blocks; ++i) order[i] = i;
    PlaceBlocks(order);
  }

  // Puts block i of the sequence at place order[i] of a new memory.
  void PlaceBlocks(const std::vector<size_t>& order) {
    memory_ = *AlignedBuffer<std::byte>::Allocate(std::max<size_t>(1, order.size()) * BlockBytes());
    uint16_t* halves = reinterpret_cast<uint16_t*>(memory_.data());
    std::fill(halves, halves + memory_.size() / 2, uint16_t{0x7e00});  // NaN
    blocks_.clear();
    for (const size_t place : order) blocks_.push_back(memory_.data() + place * BlockBytes());
    for (int64_t t = 0; t < num_tokens_; ++t) {
      for (int h = 0; h < shape_.num_kv_heads; ++h) StoreToken(t, h);
    }
  }

  // The floats of a token's key and value; call StoreToken after a change. With KvType::kQ8 they
  // are what codes are made of.
  float* Key(int64_t token, int kv_head) { return keys_.data() + Offset(token, kv_head); }
  float* Value(int64_t token, int kv_head) { return values_.data() + Offset(token, kv_head); }

  void StoreToken(int64_t token, int kv_head) {
    std::byte* record = blocks_[static_cast<size_t>(token / kBlockTokens)] + kRecordOffset +
                        static_cast<size_t>(kv_head) * layout_.Bytes();
    const int slot = static_cast<int>(token % kBlockTokens);
    if (layout_.type == KvType::kQ8) return StoreCodes(token, kv_head, slot, record);
    uint16_t* halves = reinterpret_cast<uint16_t*>(record);
    for (int c = 0; c < shape_.head_dim; ++c) {
      halves[layout_.KeyIndex(c, slot)] = FloatToHalf(Key(token, kv_head)[c]);
      halves[layout_.ValueIndex(c, slot)] = FloatToHalf(Value(token, kv_head)[c]);
    }
  }

  const AttentionShape& shape() const { return shape_; }
  int64_t num_tokens() const { return num_tokens_; }
  int64_t q_cols() const { return int64_t{shape_.num_heads} * shape_.head_dim; }
  float* q() { return q_.data(); }
  const std::byte* const* blocks() const { return blocks_.data(); }

  // Keys and values of one KV head, in order of position: [num_tokens][head_dim].
  std::vector<float> Gather(const std::vector<float>& source, int kv_head) const {
    std::vector<float> result;
    for (int64_t t = 0; t < num_tokens_; ++t) {
      const float* row = source.data() + Offset(t, kv_head);
      result.insert(result.end(), row, row + shape_.head_dim);
    }
    return result;
  }
  const std::vector<float>& keys() const { return keys_; }
  const std::vector<float>& values() const { return values_; }

  AttentionLayer Layer() const {
    return {.scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_dim)),
            .record_offset = kRecordOffset,
            .head_stride = layout_.Bytes(),
            .kv_type = layout_.type};
  }

 private:
  static constexpr size_t kRecordOffset = 128;

  // The numbers that the codes of a token stand for.
  void StoreCodes(int64_t token, int kv_head, int slot, std::byte* record) {
    uint8_t* codes = reinterpret_cast<uint8_t*>(record);
    const size_t dim = static_cast<size_t>(shape_.head_dim);
    for (size_t first = 0; first < dim; first += kKeyScaleGroup) {
      const size_t count = std::min(dim - first, size_t{kKeyScaleGroup});
      const Q8Numbers key = ToQ8({Key(token, kv_head) + first, count});
      for (size_t i = 0; i < count; ++i) {
        codes[layout_.KeyCodeBytes(static_cast<int>(first + i), slot)] =
            static_cast<uint8_t>(key.codes[i] + 128);
      }
      std::memcpy(record + layout_.KeyScaleBytes(static_cast<int>(first) / kKeyScaleGroup, slot),
                  &key.scale, sizeof(float));
    }
    const Q8Numbers value = ToQ8({Value(token, kv_head), dim});
    for (size_t i = 0; i < dim; ++i) {
      codes[layout_.ValueCodeBytes(static_cast<int>(i), slot)] =
          static_cast<uint8_t>(value.codes[i]);
    }
    std::memcpy(record + layout_.ValueScaleBytes(slot), &value.scale, sizeof(float));
  }

  size_t BlockBytes() const {
    return kRecordOffset + static_cast<size_t>(shape_.num_kv_heads) * layout_.Bytes() + 64;
  }
  size_t Offset(int64_t token, int kv_head) const {
    return static_cast<size_t>((token * shape_.num_kv_heads + kv_head) * shape_.head_dim);
  }

  AttentionShape shape_;
  int64_t num_tokens_;
  KvRecord layout_;
  std::vector<float> q_;       // [num_tokens][num_heads][head_dim]
  std::vector<float> keys_;    // [num_tokens][num_kv_heads][head_dim], values of binary16
  std::vector<float> values_;  // likewise
  AlignedBuffer<std::byte> memory_;
  std::vector<std::byte*> blocks_;
};

// Rows [first, first + count) of a problem.
struct RowRange {
  int64_t first;
  int64_t count;
};

// The output of some rows by prefill or by decode: [count][num_heads * head_dim].
inline std::vector<float> RunPrefill(const KernelContext& context, AttentionProblem& problem,
                                     const AttentionLayer& layer, RowRange rows) {
  std::vector<float> out(static_cast<size_t>(rows.count * problem.q_cols()));
  const AttentionSequence sequence = {.first_row = 0,
                                      .num_rows = rows.count,
                                      .first_position = rows.first,
                                      .blocks = problem.blocks()};
  const auto workspace = *AlignedBuffer<std::byte>::Allocate(
      PrefillAttentionWorkspaceBytes(problem.shape(), context.pool.num_threads()));
  PrefillAttention(
      context, {.q = {problem.q() + rows.first * problem.q_cols(), rows.count, problem.q_cols()},
                .out = {out.data(), rows.count, problem.q_cols()},
                .sequences = {&sequence, 1},
                .shape = problem.shape(),
                .layer = layer,
                .workspace = workspace.span()});
  return out;
}

inline std::vector<float> RunDecode(const KernelContext& context, AttentionProblem& problem,
                                    const AttentionLayer& layer, RowRange rows) {
  std::vector<float> out(static_cast<size_t>(rows.count * problem.q_cols()));
  const AttentionSequence sequence = {.first_row = 0,
                                      .num_rows = rows.count,
                                      .first_position = rows.first,
                                      .blocks = problem.blocks()};
  const auto workspace = *AlignedBuffer<std::byte>::Allocate(
      DecodeAttentionWorkspaceBytes(problem.shape(), {&sequence, 1}, context.pool.num_threads()));
  DecodeAttention(context,
                  {.q = {problem.q() + rows.first * problem.q_cols(), rows.count, problem.q_cols()},
                   .out = {out.data(), rows.count, problem.q_cols()},
                   .sequences = {&sequence, 1},
                   .shape = problem.shape(),
                   .layer = layer,
                   .workspace = workspace.span()});
  return out;
}

inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace baton
