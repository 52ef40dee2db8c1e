#include "bench/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/number_text.h"
#include "bench/limit_work.h"
#include "tensor/aligned_buffer.h"

namespace baton {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
// Reading from memory: so many times the largest cache, within these bounds.
constexpr uint64_t kCachesOfMemory = 2;
constexpr uint64_t kLeastMemory = 128 * kMiB;
constexpr uint64_t kMostMemory = 4096 * kMiB;

class LimitsBench {
 public:
  LimitsBench(const LimitsOptions& options, const BenchProgress& progress)
      : options_(options), progress_(progress) {}

  Result<LimitsReport> Run() {
    report_.machine = ReadMachine({});
    Result<std::unique_ptr<ThreadPool>> one = ThreadPool::Make(1);
    if (!one) return Forward(one);
    for (const Isa isa : RunnableIsas()) Arithmetic({.table = KernelsFor(isa), .pool = **one});
    if (Result<> threaded = ThreadedArithmetic(); !threaded) return Forward(threaded);
    if (Result<> made = MakeMemory(); !made) return Forward(made);
    Caches({.table = KernelsFor(BestIsa()), .pool = **one});
    for (const int threads : ThreadCounts()) {
      Result<std::unique_ptr<ThreadPool>> pool = ThreadPool::Make(threads);
      if (!pool) return Forward(pool);
      FromMemory({.table = KernelsFor(BestIsa()), .pool = **pool});
    }
    return std::move(report_);
  }

 private:
  LimitRate Rate(const LimitWork& work, int num_threads) {
    ThreadCpuClock cpu;
    WallClock wall;
    WorkClock& clock = num_threads == 1 ? static_cast<WorkClock&>(cpu) : wall;
    const TimingOptions timing =
        options_.is_quick
            ? QuickTiming()
            : TimingOptions{.sample_seconds = 5e-3, .min_seconds = 0.15, .min_rounds = 7};
    const std::vector<Samples> samples = TimeInTurn({&work.run, 1}, clock, timing);
    const Summary seconds = Summarize(samples[0]);
    return {.median = work.amount / seconds.median,
            .best = work.amount / seconds.min,
            .spread = seconds.spread};
  }

  void Arithmetic(const KernelContext& context) {
    const int threads = context.pool.num_threads();
    progress_(
        fmt::format("arithmetic, {}, {}", IsaName(context.table.isa), CountOf(threads, "thread")));
    report_.arithmetic.push_back({.isa = context.table.isa,
                                  .num_threads = threads,
                                  .float_rate = Rate(FloatLimitWork(context), threads),
                                  .integer_rate = Rate(IntegerLimitWork(context), threads)});
  }

  Result<> ThreadedArithmetic() {
    if (options_.max_threads == 1) return {};
    Result<std::unique_ptr<ThreadPool>> all = ThreadPool::Make(options_.max_threads);
    if (!all) return Forward(all);
    Arithmetic({.table = KernelsFor(BestIsa()), .pool = **all});
    return {};
  }

  // Memory that is larger than the caches, and written: pages never touched are all one.
  Result<> MakeMemory() {
    for (int level = 1; level <= 3; ++level) {
      if (report_.machine.IsCacheKnown(level)) continue;
      report_.notes.push_back(
          fmt::format("the system does not tell the size of the L{} cache", level));
    }
    const uint64_t wanted = std::max(kLeastMemory, kCachesOfMemory * report_.machine.CacheBytes(3));
    uint64_t bytes = std::min({wanted, kMostMemory, std::max(options_.max_bytes, 8 * kMiB)});
    if (options_.is_quick) bytes = 8 * kMiB;
    bytes = bytes / kMiB * kMiB;
    if (bytes < wanted) {
      report_.notes.push_back(fmt::format(
          "memory was read from {} MiB, less than twice the largest cache: part of it came from "
          "there",
          bytes / kMiB));
    }
    progress_(fmt::format("filling {} MiB", bytes / kMiB));
    Result<AlignedBytes> memory = AlignedBytes::Allocate(bytes);
    if (!memory) return Forward(memory);
    memory_ = *std::move(memory);
    std::memset(memory_.data(), 1, memory_.size());
    return {};
  }

  std::span<const std::byte> memory() const { return {memory_.data(), memory_.size()}; }

  void Caches(const KernelContext& context) {
    const Machine& machine = report_.machine;
    // Half of a cache of one's own, so that nothing else drives it out; of the last, shared one
    // less, but well beyond the cache before it.
    const uint64_t shared =
        std::max(4 * machine.CacheBytes(2), std::min(machine.CacheBytes(3) / 4, 16 * kMiB));
    const std::pair<const char*, uint64_t> levels[] = {
        {"L1", machine.CacheBytes(1) / 2}, {"L2", machine.CacheBytes(2) / 2}, {"L3", shared}};
    for (const auto& [name, wanted] : levels) {
      progress_(fmt::format("reading from {}", name));
      const uint64_t bytes =
          std::max<uint64_t>(512, std::min<uint64_t>(wanted, memory_.size()) / 512 * 512);
      report_.reads.push_back({.from = name,
                               .bytes = bytes,
                               .num_threads = 1,
                               .rate = Rate(ReadNearLimitWork(context, memory(), bytes), 1)});
    }
  }

  void FromMemory(const KernelContext& context) {
    const int threads = context.pool.num_threads();
    progress_(fmt::format("reading from memory, {}", CountOf(threads, "thread")));
    report_.reads.push_back({.from = "memory",
                             .bytes = memory_.size(),
                             .num_threads = threads,
                             .rate = Rate(ReadLimitWork(context, {memory()}), threads)});
  }

  std::vector<int> ThreadCounts() const {
    std::vector<int> counts;
    for (int n = 1; n < options_.max_threads; n *= 2) counts.push_back(n);
    counts.push_back(options_.max_threads);
    return counts;
  }

  const LimitsOptions& options_;
  const BenchProgress& progress_;
  AlignedBytes memory_;
  LimitsReport report_;
};

}  // namespace

Result<LimitsReport> MeasureLimits(const LimitsOptions& options, const BenchProgress& progress) {
  return LimitsBench(options, progress).Run();
}

}  // namespace baton
