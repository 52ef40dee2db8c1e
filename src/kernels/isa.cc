#include "kernels/isa.h"

#include <array>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "kernels/attention_ops.h"
#include "kernels/kv_write_ops.h"
#include "kernels/limits_ops.h"
#include "kernels/linear_ops.h"
#include "kernels/row_kernel_ops.h"
#include "kernels/sparse_attention_ops.h"

namespace baton {

namespace {

constexpr std::array kIsas = {Isa::kPortable, Isa::kAvx2, Isa::kAvx512};

#if defined(__x86_64__) && !defined(BATON_PORTABLE_ONLY)

struct CpuidLeaf {
  uint32_t eax, ebx, ecx, edx;
};

CpuidLeaf Cpuid(uint32_t leaf) {
  CpuidLeaf r{};
  asm volatile("cpuid" : "=a"(r.eax), "=b"(r.ebx), "=c"(r.ecx), "=d"(r.edx) : "a"(leaf), "c"(0));
  return r;
}

// Which register states the operating system saves (XCR0); 0 without XSAVE.
uint64_t SavedStates(const CpuidLeaf& features) {
  if ((features.ecx & (1u << 27)) == 0) return 0;  // OSXSAVE
  uint32_t low = 0;
  uint32_t high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

constexpr bool HasAll(uint64_t bits, uint64_t wanted) {
  return (bits & wanted) == wanted;
}

// How many of kIsas, from the first on, can run.
size_t CountRunnable() {
  if (Cpuid(0).eax < 7) return 1;
  const CpuidLeaf basic = Cpuid(1);
  const CpuidLeaf extended = Cpuid(7);
  const uint64_t states = SavedStates(basic);
  constexpr uint64_t kYmmStates = 0x6;                // SSE, AVX
  constexpr uint64_t kZmmStates = kYmmStates | 0xe0;  // masks, both halves of the zmm file
  constexpr uint32_t kFmaAvxF16c = (1u << 12) | (1u << 28) | (1u << 29);
  constexpr uint32_t kAvx2Bit = 1u << 5;
  constexpr uint32_t kAvx512Bits = (1u << 16) | (1u << 17) | (1u << 30) | (1u << 31);  // F DQ BW VL
  constexpr uint32_t kVnniBit = 1u << 11;
  if (!HasAll(states, kYmmStates) || !HasAll(basic.ecx, kFmaAvxF16c) ||
      !HasAll(extended.ebx, kAvx2Bit)) {
    return 1;
  }
  if (!HasAll(states, kZmmStates) || !HasAll(extended.ebx, kAvx512Bits) ||
      !HasAll(extended.ecx, kVnniBit)) {
    return 2;
  }
  return 3;
}

#else
size_t CountRunnable() {
  return 1;
}
#endif

std::string RunnableNames() {
  std::string names;
  for (const Isa isa : RunnableIsas()) {
    if (!names.empty()) names += ", ";
    names += IsaName(isa);
  }
  return names;
}

constexpr KernelTable kPortableTable = {.isa = Isa::kPortable,
                                        .linear = &portable::kLinearOps,
                                        .attention = &portable::kAttentionOps,
                                        .sparse_attention = &portable::kSparseAttentionOps,
                                        .kv_write = &portable::kKvWriteOps,
                                        .rows = &portable::kRowKernelOps,
                                        .limits = &portable::kLimitsOps};
#if defined(__x86_64__) && !defined(BATON_PORTABLE_ONLY)
constexpr KernelTable kAvx2Table = {.isa = Isa::kAvx2,
                                    .linear = &avx2::kLinearOps,
                                    .attention = &avx2::kAttentionOps,
                                    .sparse_attention = &avx2::kSparseAttentionOps,
                                    .kv_write = &avx2::kKvWriteOps,
                                    .rows = &avx2::kRowKernelOps,
                                    .limits = &avx2::kLimitsOps};
constexpr KernelTable kAvx512Table = {.isa = Isa::kAvx512,
                                      .linear = &avx512::kLinearOps,
                                      .attention = &avx512::kAttentionOps,
                                      .sparse_attention = &avx512::kSparseAttentionOps,
                                      .kv_write = &avx512::kKvWriteOps,
                                      .rows = &avx512::kRowKernelOps,
                                      .limits = &avx512::kLimitsOps};
#endif

}  // namespace

std::string_view IsaName(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return "portable";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "?";
}

std::span<const Isa> RunnableIsas() {
  return std::span(kIsas).first(CountRunnable());
}

Isa BestIsa() {
  return RunnableIsas().back();
}

Result<Isa> ParseIsa(std::string_view name) {
  if (name == "auto") return BestIsa();
  for (const Isa isa : RunnableIsas()) {
    if (IsaName(isa) == name) return isa;
  }
  for (const Isa isa : kIsas) {
    if (IsaName(isa) != name) continue;
    return Fail(ErrorCode::kUnavailable, "this machine cannot run the instruction set '" +
                                             std::string(name) + "'; it can run: auto, " +
                                             RunnableNames());
  }
  return Fail(ErrorCode::kInvalid, "no such instruction set: '" + std::string(name) +
                                       "'; this machine can run: auto, " + RunnableNames());
}

const KernelTable& KernelsFor(Isa isa) {
  CHECK_LT(static_cast<size_t>(isa), CountRunnable());
#if defined(__x86_64__) && !defined(BATON_PORTABLE_ONLY)
  if (isa == Isa::kAvx512) return kAvx512Table;
  if (isa == Isa::kAvx2) return kAvx2Table;
#endif
  return kPortableTable;
}

}  // namespace baton
