// Instruction sets, and the table of kernels of each.
//
// Every kernel gives the same bits on all of them (docs/numerics.md), so the choice is one of
// speed. A table is a constant; a program chooses one and passes it down, and a test can run all of
// them in one process.
#pragma once

#include <cstdint>
#include <ostream>
#include <span>
#include <string_view>

#include "base/result.h"

namespace baton {

struct LinearOps;           // kernels/linear_ops.h
struct AttentionOps;        // kernels/attention_ops.h
struct SparseAttentionOps;  // kernels/sparse_attention_ops.h
struct KvWriteOps;          // kernels/kv_write_ops.h
struct RowKernelOps;        // kernels/row_kernel_ops.h
struct LimitsOps;           // kernels/limits_ops.h

// By rising speed.
enum class Isa {
  kPortable,  // plain C++
  kAvx2,      // AVX2, FMA, F16C
  kAvxVnni,   // these and AVX-VNNI
  kAvx512,    // AVX-512 F, BW, DQ, VL, VNNI
};

// "portable", "avx2", "avx-vnni", "avx512": as --isa takes them.
std::string_view IsaName(Isa isa);

// The instruction sets that this processor and its operating system can run, slowest first; never
// empty. Threads: any.
std::span<const Isa> RunnableIsas();

// The fastest of RunnableIsas().
Isa BestIsa();

// The instruction set of this name, or "auto" for the best.
// Errors: invalid (no such name), unavailable (this machine cannot run it); both say what it can.
Result<Isa> ParseIsa(std::string_view name);

// The kernels of one instruction set.
struct KernelTable {
  Isa isa;
  const LinearOps* linear;
  const AttentionOps* attention;
  const SparseAttentionOps* sparse_attention;
  const KvWriteOps* kv_write;
  const RowKernelOps* rows;
  const LimitsOps* limits;
  // Bit PanelType: weights of this type are multiplied a tile of rows at a time, however many rows
  // there are; LinearKernels::many is slower on this processor.
  uint32_t tiles_only = 0;
  // Attention of many rows converts the keys and values of a block to f32 once for all of them. On
  // a processor whose conversions take no port of the multiplier, loading them as they are is
  // faster for any number of rows.
  bool widens_blocks = true;
};

// The table of an instruction set. Requires: it is one of RunnableIsas().
const KernelTable& KernelsFor(Isa isa);

inline std::ostream& operator<<(std::ostream& out, Isa isa) {
  return out << IsaName(isa);
}

}  // namespace baton
