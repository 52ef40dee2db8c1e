#include "bench/limit_work.h"

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "kernels/limits_ops.h"

namespace baton {
namespace {

constexpr size_t kReadUnitBytes = 512;
// What one task reads: enough that taking it costs nothing, few enough that threads end together.
constexpr size_t kPieceBytes = size_t{256} << 10;

const uint8_t* BytesOf(std::span<const std::byte> memory) {
  return reinterpret_cast<const uint8_t*>(memory.data());
}

// Registers only: some tens of microseconds with vectors, so that starting threads counts little.
int64_t ArithmeticTimes(Isa isa) {
  return isa == Isa::kPortable ? 1000 : 50000;
}

}  // namespace

LimitWork FloatLimitWork(const KernelContext& context) {
  const int64_t times = ArithmeticTimes(context.table.isa);
  const int threads = context.pool.num_threads();
  return {.run =
              [context, times, threads] {
                context.pool.ParallelFor(
                    threads, [&](int64_t, int) { (void)context.table.limits->float_macs(times); });
              },
          .amount = static_cast<double>(times * kFloatMacs * threads)};
}

LimitWork IntegerLimitWork(const KernelContext& context) {
  const int64_t times = ArithmeticTimes(context.table.isa);
  const int threads = context.pool.num_threads();
  return {.run =
              [context, times, threads] {
                context.pool.ParallelFor(threads, [&](int64_t, int) {
                  (void)context.table.limits->integer_macs(times);
                });
              },
          .amount = static_cast<double>(times * kIntegerMacs * threads)};
}

LimitWork ReadLimitWork(const KernelContext& context,
                        std::vector<std::span<const std::byte>> memory) {
  const bool is_alone = context.pool.num_threads() == 1;
  std::vector<std::span<const std::byte>> pieces;
  size_t bytes = 0;
  for (std::span<const std::byte> rest : memory) {
    rest = rest.first(rest.size() / kReadUnitBytes * kReadUnitBytes);
    bytes += rest.size();
    while (!rest.empty()) {
      const size_t size = is_alone ? rest.size() : std::min(rest.size(), kPieceBytes);
      pieces.push_back(rest.first(size));
      rest = rest.subspan(size);
    }
  }
  return {.run =
              [context, pieces = std::move(pieces)] {
                context.pool.ParallelFor(
                    static_cast<int64_t>(pieces.size()), [&](int64_t task, int) {
                      const std::span<const std::byte> piece = pieces[static_cast<size_t>(task)];
                      (void)context.table.limits->read(BytesOf(piece), piece.size());
                    });
              },
          .amount = static_cast<double>(bytes)};
}

LimitWork ReadNearLimitWork(const KernelContext& context, std::span<const std::byte> memory,
                            size_t bytes) {
  const int threads = context.pool.num_threads();
  CHECK_EQ(bytes % kReadUnitBytes, 0u);
  CHECK_GE(memory.size(), bytes * static_cast<size_t>(threads));
  // A call reads at least this much, so that beginning it counts nothing.
  constexpr size_t kCallBytes = size_t{4} << 20;
  const int64_t times = std::max<int64_t>(1, static_cast<int64_t>(kCallBytes / bytes));
  return {.run =
              [context, memory, bytes, times, threads] {
                context.pool.ParallelFor(threads, [&](int64_t task, int) {
                  const auto part = memory.subspan(static_cast<size_t>(task) * bytes, bytes);
                  (void)context.table.limits->read_near(BytesOf(part), bytes, times);
                });
              },
          .amount = static_cast<double>(bytes) * static_cast<double>(times) * threads};
}

}  // namespace baton
