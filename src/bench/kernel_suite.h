// `baton bench kernels`: every kernel, verified, then timed beside the limits of the machine.
//
// Verified: the bits of a kernel's results are compared with those of the portable kernel, for the
// first and the last row, and of a matrix for its first and last output rows.
// Timed: whole operations. A linear layer counts from f32 rows to f32 rows, with the inputs'
// quantization; attention from f32 queries to f32 outputs, and only visible keys count as work.
// Beside each row its limits are timed in turn with it (bench/measure.h): the arithmetic in
// registers (bench/limit_work.h) and reading the same memory that the row reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/kernel_row.h"
#include "bench/limits.h"
#include "kernels/attention.h"
#include "kernels/precision.h"
#include "tensor/dtype.h"
#include "tensor/kv_record.h"

namespace baton {

// Rows of inputs times a matrix [num_outputs, num_inputs].
struct LinearExtents {
  int64_t num_rows = 0;
  int64_t num_outputs = 0;
  int64_t num_inputs = 0;
  friend bool operator==(const LinearExtents&, const LinearExtents&) = default;
};

// The weight types that have kernels, in the order of reports.
std::vector<DType> KernelTypes();

// The prompt lengths that sparse attention is timed at, ascending.
std::vector<int64_t> SparseLengths();

struct KernelSuiteOptions {
  std::vector<Isa> isas = {};
  bool has_linear = true;
  bool has_prefill_attention = true;  // dense
  bool has_decode_attention = true;
  bool has_sparse_attention = true;  // beside dense attention of the same rows
  bool has_row_operations = true;
  std::vector<DType> types = {};
  std::vector<Precision> precisions = {};
  std::vector<KvType> kv_types = {KvType::kF16, KvType::kQ8};  // of dense attention
  // Instead of the usual ones, for linear layers; empty: the usual ones.
  std::vector<LinearExtents> shapes = {};
  // Of SparseLengths; empty: all of them.
  std::vector<int64_t> sparse_lengths = {};
  int num_threads = 1;
  uint64_t max_bytes = 0;      // that weights and caches may take
  double seconds_per_row = 0;  // that are timed at least
  bool is_quick = false;       // tiny sizes, one round
};

// Errors: exhausted (memory, threads).
Result<KernelReport> BenchKernels(const KernelSuiteOptions& options, const BenchProgress& progress);

// What the parts of the benchmark work with.
struct KernelSuiteContext {
  const KernelSuiteOptions& options;
  const BenchProgress& progress;
  const Machine& machine;
  KernelContext kernels;   // the instruction set and threads to be timed
  KernelContext portable;  // to verify with
  KernelContext two;       // the same instruction set on two threads
  KernelReport& report;

  bool is_alone() const { return kernels.pool.num_threads() == 1; }
  // Whether two threads can be compared with one.
  bool can_compare_threads() const { return is_alone() && machine.num_cpus >= 2; }
  TimingOptions timing() const;
  // Bytes beyond the caches, or as many as may be taken; notes the latter in the report.
  uint64_t BytesBehindCaches() const;
};

// Append to context.report. Errors: exhausted.
Result<> BenchLinear(const KernelSuiteContext& context);
Result<> BenchAttention(const KernelSuiteContext& context);
Result<> BenchSparseAttention(const KernelSuiteContext& context);
Result<> BenchRowOperations(const KernelSuiteContext& context);

}  // namespace baton
