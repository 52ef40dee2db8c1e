#include "bench/kernel_suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "kernels/panel.h"

namespace baton {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

Result<> BenchIsa(Isa isa, const KernelSuiteOptions& options, const BenchProgress& progress,
                  KernelReport& report) {
  Result<std::unique_ptr<ThreadPool>> pool = ThreadPool::Make(options.num_threads);
  if (!pool) return Forward(pool);
  Result<std::unique_ptr<ThreadPool>> one = ThreadPool::Make(1);
  if (!one) return Forward(one);
  Result<std::unique_ptr<ThreadPool>> two = ThreadPool::Make(2);
  if (!two) return Forward(two);
  const BenchProgress with_isa = [&](const std::string& what) {
    progress(fmt::format("{} {}", IsaName(isa), what));
  };
  const KernelSuiteContext context = {
      .options = options,
      .progress = with_isa,
      .machine = report.machine,
      .kernels = {.table = KernelsFor(isa), .pool = **pool},
      .portable = {.table = KernelsFor(Isa::kPortable), .pool = **one},
      .two = {.table = KernelsFor(isa), .pool = **two},
      .report = report};
  if (options.has_linear) {
    if (Result<> done = BenchLinear(context); !done) return done;
  }
  if (Result<> done = BenchAttention(context); !done) return done;
  if (options.has_sparse_attention) {
    if (Result<> done = BenchSparseAttention(context); !done) return done;
  }
  if (options.has_row_operations) return BenchRowOperations(context);
  return {};
}

}  // namespace

std::vector<DType> KernelTypes() {
  std::vector<DType> types;
  for (const PanelFormat& format : kPanelFormats) types.push_back(format.dtype);
  types.insert(types.end(), {DType::kF16, DType::kBF16, DType::kF32});
  return types;
}

TimingOptions KernelSuiteContext::timing() const {
  if (options.is_quick) return QuickTiming();
  return {.sample_seconds = 2e-3, .min_seconds = options.seconds_per_row, .min_rounds = 7};
}

uint64_t KernelSuiteContext::BytesBehindCaches() const {
  if (options.is_quick) return kMiB;
  // A little more than twice the largest cache, but never so little that a slow start would show.
  const uint64_t wanted =
      std::max(64 * kMiB, 2 * machine.CacheBytes(3) + machine.CacheBytes(3) / 16);
  const uint64_t most = std::min(options.max_bytes, 2048 * kMiB);
  if (wanted <= most) return wanted;
  const std::string note = fmt::format(
      "matrices and caches were cut to {} MiB: part of them lay in the last-level cache",
      most / kMiB);
  std::vector<std::string>& notes = report.notes;
  if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
  return most;
}

Result<KernelReport> BenchKernels(const KernelSuiteOptions& options,
                                  const BenchProgress& progress) {
  KernelReport report;
  report.machine = ReadMachine({});
  report.is_quick = options.is_quick;
  for (const Isa isa : options.isas) {
    if (Result<> done = BenchIsa(isa, options, progress, report); !done) return Forward(done);
  }
  return report;
}

}  // namespace baton
