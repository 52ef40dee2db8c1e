// Where everything lies in the workspace of sparse prefill: packed estimates, then a part per
// worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/attention_prefill_sparse.h"
#include "kernels/sparse_attention_ops.h"

namespace baton::internal {

// Far keys per 64 tokens that the policy uses; 0 for means alone.
int NumFar(const SparsePolicy& policy);

// Strips of 64 selection blocks up to the end of a call's rows.
int64_t CountStrips(const SparsePolicy& policy, const AttentionSequence& sequence);

// One worker's part of the workspace.
struct SparseWorkerSpace {
  SparseTimes* times;
  BlockCounts* counts;  // [num_kv_heads]
  float* row_m;         // [max_rows]
  float* row_l;
  float* energies;  // [max_strips * 64]
  SelectionLists lists;
  float* z;         // [max_strips][num_slabs][max_rows][64]
  float* row_tops;  // [max_rows, rounded up to 16]
  std::byte* scratch;
};

// What the workspace has to hold.
struct SparsePlan {
  int64_t max_rows = 0;    // of a tile, all heads of a group
  int64_t max_blocks = 0;  // of a sequence
  int64_t max_strips = 0;
  int64_t packed_strips = 0;  // of all sequences, for one KV head
  int num_slabs = 0;          // estimates per block
  int num_kv_heads = 0;
  int head_dim = 0;

  // The parts of a worker's memory of WorkerBytes. Requires: it is aligned to 64 bytes.
  SparseWorkerSpace WorkerAt(std::byte* memory) const;
  size_t WorkerBytes() const;
  // Of the packed estimates: [sequences][num_kv_heads][strips of the sequence].
  int64_t PackedFloats() const;
};

SparsePlan MakeSparsePlan(const AttentionShape& shape, const SparsePolicy& policy,
                          std::span<const AttentionSequence> sequences);

}  // namespace baton::internal
