#include "kernels/isa.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "kernels/attention_ops.h"
#include "kernels/kv_write_ops.h"
#include "kernels/limits_ops.h"
#include "kernels/linear_ops.h"
#include "kernels/panel.h"
#include "kernels/row_kernel_ops.h"
#include "kernels/sparse_attention_ops.h"

namespace baton {

namespace {

constexpr std::array kIsas = {Isa::kPortable, Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512};

#if defined(__x86_64__) && !defined(BATON_PORTABLE_ONLY)

struct CpuidLeaf {
  uint32_t eax, ebx, ecx, edx;
};

CpuidLeaf Cpuid(uint32_t leaf, uint32_t subleaf) {
  CpuidLeaf r{};
  asm volatile("cpuid"
               : "=a"(r.eax), "=b"(r.ebx), "=c"(r.ecx), "=d"(r.edx)
               : "a"(leaf), "c"(subleaf));
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

bool CanRun(Isa isa) {
  if (isa == Isa::kPortable) return true;
  if (Cpuid(0, 0).eax < 7) return false;
  const CpuidLeaf basic = Cpuid(1, 0);
  const CpuidLeaf extended = Cpuid(7, 0);
  const uint64_t states = SavedStates(basic);
  constexpr uint64_t kYmmStates = 0x6;                // SSE, AVX
  constexpr uint64_t kZmmStates = kYmmStates | 0xe0;  // masks, both halves of the zmm file
  constexpr uint32_t kFmaAvxF16c = (1u << 12) | (1u << 28) | (1u << 29);
  constexpr uint32_t kAvx2Bit = 1u << 5;
  constexpr uint32_t kAvx512Bits = (1u << 16) | (1u << 17) | (1u << 30) | (1u << 31);  // F DQ BW VL
  constexpr uint32_t kAvx512VnniBit = 1u << 11;
  if (!HasAll(states, kYmmStates) || !HasAll(basic.ecx, kFmaAvxF16c) ||
      !HasAll(extended.ebx, kAvx2Bit)) {
    return false;
  }
  if (isa == Isa::kAvx2) return true;
#if !defined(BATON_EVEX_AVX_VNNI)
  constexpr uint32_t kAvxVnniBit = 1u << 4;
  if (isa == Isa::kAvxVnni) return extended.eax >= 1 && HasAll(Cpuid(7, 1).eax, kAvxVnniBit);
#endif
  return HasAll(states, kZmmStates) && HasAll(extended.ebx, kAvx512Bits) &&
         HasAll(extended.ecx, kAvx512VnniBit);
}

// Zen 3 and Zen 4.
bool IsAmdFamily19() {
  const CpuidLeaf vendor = Cpuid(0, 0);
  if (vendor.ebx != 0x68747541) return false;  // "Auth" of AuthenticAMD
  const uint32_t signature = Cpuid(1, 0).eax;
  return ((signature >> 8) & 0xf) + ((signature >> 20) & 0xff) == 0x19;
}

#else
bool CanRun(Isa isa) {
  return isa == Isa::kPortable;
}
bool IsAmdFamily19() {
  return false;
}
#endif

// What decides between tables.
struct Cpu {
  std::array<Isa, kIsas.size()> isas;  // that it can run, in the order of kIsas
  size_t num_isas;
  bool is_amd_family19;
};

Cpu ReadCpu() {
  Cpu cpu = {.isas = {}, .num_isas = 0, .is_amd_family19 = IsAmdFamily19()};
  for (const Isa isa : kIsas) {
    if (CanRun(isa)) cpu.isas[cpu.num_isas++] = isa;
  }
  return cpu;
}

// Asked once: on a virtual machine each cpuid is a visit to its host, tens of microseconds.
const Cpu& ThisCpu() {
  static const Cpu cpu = ReadCpu();
  return cpu;
}

std::string RunnableNames() {
  std::string names;
  for (const Isa isa : RunnableIsas()) {
    if (!names.empty()) names += ", ";
    names += IsaName(isa);
  }
  return names;
}

template <typename... Types>
constexpr uint32_t BitsOf(Types... types) {
  return ((1u << static_cast<int>(types)) | ...);
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
// AVX-VNNI has integer products and nothing else: what has none of them is that of AVX2.
constexpr KernelTable kAvxVnniTable = {.isa = Isa::kAvxVnni,
                                       .linear = &avx_vnni::kLinearOps,
                                       .attention = &avx2::kAttentionOps,
                                       .sparse_attention = &avx2::kSparseAttentionOps,
                                       .kv_write = &avx2::kKvWriteOps,
                                       .rows = &avx2::kRowKernelOps,
                                       .limits = &avx_vnni::kLimitsOps};
constexpr KernelTable kAvx512Table = {.isa = Isa::kAvx512,
                                      .linear = &avx512::kLinearOps,
                                      .attention = &avx512::kAttentionOps,
                                      .sparse_attention = &avx512::kSparseAttentionOps,
                                      .kv_write = &avx512::kKvWriteOps,
                                      .rows = &avx512::kRowKernelOps,
                                      .limits = &avx512::kLimitsOps};

constexpr KernelTable WithTilesOnly(KernelTable table, uint32_t tiles_only) {
  table.tiles_only = tiles_only;
  return table;
}

constexpr KernelTable WithoutWidening(KernelTable table) {
  table.widens_blocks = false;
  return table;
}

// docs/performance.md, "Tiles or many rows", has the measurement.
constexpr KernelTable kAvx2TableOfFamily19 = WithTilesOnly(kAvx2Table, BitsOf(PanelType::kQ8_0));
constexpr KernelTable kAvx512TableOfFamily19 = WithoutWidening(WithTilesOnly(
    kAvx512Table,
    BitsOf(PanelType::kQ4_0, PanelType::kQ4_1, PanelType::kQ5_0, PanelType::kQ8_0, PanelType::kQ4_K,
           PanelType::kQ5_K, PanelType::kF16, PanelType::kBF16, PanelType::kF32)));
#endif

}  // namespace

std::string_view IsaName(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return "portable";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvxVnni:
      return "avx-vnni";
    case Isa::kAvx512:
      return "avx512";
  }
  return "?";
}

std::span<const Isa> RunnableIsas() {
  return std::span(ThisCpu().isas).first(ThisCpu().num_isas);
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
  CHECK(std::ranges::find(RunnableIsas(), isa) != RunnableIsas().end());
#if defined(__x86_64__) && !defined(BATON_PORTABLE_ONLY)
  const bool family19 = ThisCpu().is_amd_family19;
  if (isa == Isa::kAvx512) return family19 ? kAvx512TableOfFamily19 : kAvx512Table;
  if (isa == Isa::kAvxVnni) return kAvxVnniTable;
  if (isa == Isa::kAvx2) return family19 ? kAvx2TableOfFamily19 : kAvx2Table;
#endif
  return kPortableTable;
}

}  // namespace baton
