#include "kernels/sparse_workspace.h"

#include <algorithm>

namespace baton::internal {
namespace {

int NumSlabs(const SparsePolicy& policy) {
  const int num_far = NumFar(policy);
  return num_far == 0 ? 1 : (num_far + 1) * (policy.block_tokens / kBlockTokens);
}

// Selection blocks of a sequence up to the end of a call.
int64_t CountBlocks(const SparsePolicy& policy, const AttentionSequence& sequence) {
  const int64_t end = sequence.first_position + sequence.num_rows;
  return (end + policy.block_tokens - 1) / policy.block_tokens;
}

// Hands out parts of a memory, or, without one, counts their bytes.
class Cursor {
 public:
  explicit Cursor(std::byte* base) : base_(base) {}

  template <typename T>
  T* Take(int64_t count) {
    T* result = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
    return result;
  }
  size_t used() const { return used_; }

 private:
  std::byte* base_;
  size_t used_ = 0;
};

SparseWorkerSpace LayOutWorker(const SparsePlan& plan, Cursor& cursor) {
  SparseWorkerSpace space;
  space.times = cursor.Take<SparseTimes>(1);
  space.counts = cursor.Take<BlockCounts>(plan.num_kv_heads);
  space.row_m = cursor.Take<float>(plan.max_rows);
  space.row_l = cursor.Take<float>(plan.max_rows);
  space.energies = cursor.Take<float>(plan.max_strips * kStripBlocks);
  const size_t count = static_cast<size_t>(plan.max_blocks);
  for (std::span<int32_t>* list :
       {&space.lists.kept, &space.lists.corrected, &space.lists.scratch}) {
    int32_t* data = cursor.Take<int32_t>(plan.max_blocks);
    *list = {data, data == nullptr ? 0 : count};
  }
  space.z = cursor.Take<float>(plan.max_strips * plan.num_slabs * plan.max_rows * kStripBlocks);
  // Cursor rounds up to 16 floats.
  space.row_tops = cursor.Take<float>(plan.max_rows);
  space.scratch = cursor.Take<std::byte>(
      static_cast<int64_t>(SparseScratchBytes(plan.max_rows, plan.head_dim)));
  return space;
}

}  // namespace

int NumFar(const SparsePolicy& policy) {
  return policy.estimate == BlockEstimate::kFar ? policy.num_estimates - 1 : 0;
}

int64_t CountStrips(const SparsePolicy& policy, const AttentionSequence& sequence) {
  if (sequence.num_rows == 0) return 0;
  return (CountBlocks(policy, sequence) + kStripBlocks - 1) / kStripBlocks;
}

SparseWorkerSpace SparsePlan::WorkerAt(std::byte* memory) const {
  Cursor cursor(memory);
  return LayOutWorker(*this, cursor);
}

size_t SparsePlan::WorkerBytes() const {
  Cursor cursor(nullptr);
  LayOutWorker(*this, cursor);
  return cursor.used();
}

int64_t SparsePlan::PackedFloats() const {
  return packed_strips * num_kv_heads * PackedStripFloats(head_dim, num_slabs);
}

SparsePlan MakeSparsePlan(const AttentionShape& shape, const SparsePolicy& policy,
                          std::span<const AttentionSequence> sequences) {
  SparsePlan plan = {
      .max_rows = int64_t{TilePositions(policy, shape.GroupSize())} * shape.GroupSize(),
      .num_slabs = NumSlabs(policy),
      .num_kv_heads = shape.num_kv_heads,
      .head_dim = shape.head_dim};
  for (const AttentionSequence& sequence : sequences) {
    plan.max_blocks = std::max(plan.max_blocks, CountBlocks(policy, sequence));
    plan.max_strips = std::max(plan.max_strips, CountStrips(policy, sequence));
    plan.packed_strips += CountStrips(policy, sequence);
  }
  return plan;
}

}  // namespace baton::internal
