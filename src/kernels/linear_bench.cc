// linear/<isa>/<type>/<precision>: one linear layer, quantization of its inputs included, one
// thread. GMAC/s, the share of the peak of the instructions it is made of, GB/s of weights, and the
// share of the speed at which the same memory can be read; peaks are measured in the same run.
// The tests run it with --benchmark_min_time=0 --benchmark_filter=rows:2/.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "kernels/limits_ops.h"
#include "kernels/linear.h"

namespace baton {
namespace {

constexpr DType kTypes[] = {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0,
                            DType::kQ2_K, DType::kQ3_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K,
                            DType::kF16,  DType::kBF16, DType::kF32};

// Of this thread, so that a busy machine does not count.
double Seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The best of several runs: the peak of an undisturbed core.
template <typename Work>
double BestSeconds(Work work) {
  double best = 1e9;
  for (int i = 0; i < 7; ++i) {
    const double start = Seconds();
    work();
    best = std::min(best, Seconds() - start);
  }
  return best;
}

struct Peaks {
  double integer_macs;  // per second
  double float_macs;
};

// Repetitions of `work(times)` per second, with `times` large enough to be timed.
template <typename Work>
double PeakRate(Work work) {
  int64_t times = 100;
  while (BestSeconds([&] { work(times); }) < 1e-3) times *= 2;
  return static_cast<double>(times) / BestSeconds([&] { work(times); });
}

Peaks MeasurePeaks(Isa isa) {
  const LimitsOps& limits = *KernelsFor(isa).limits;
  const double integer =
      PeakRate([&](int64_t times) { benchmark::DoNotOptimize(limits.integer_macs(times)); });
  const double floats =
      PeakRate([&](int64_t times) { benchmark::DoNotOptimize(limits.float_macs(times)); });
  return {.integer_macs = integer * static_cast<double>(kIntegerMacs),
          .float_macs = floats * static_cast<double>(kFloatMacs)};
}

struct Variant {
  Isa isa;
  DType type;
  Precision precision;
  Peaks peaks;
};

// Weights that any type can hold: bytes of small numbers.
WeightMatrix MakeWeights(DType type, int64_t num_outputs, int64_t num_inputs, ThreadPool& pool) {
  const uint64_t row_bytes = RowBytes(type, static_cast<uint64_t>(num_inputs)).value();
  std::vector<std::byte> bytes(row_bytes * static_cast<uint64_t>(num_outputs));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 % 59);
  Result<WeightMatrix> weights = WeightMatrix::Pack(
      {.type = type, .bytes = bytes, .num_outputs = num_outputs, .num_inputs = num_inputs}, pool);
  CHECK(weights.has_value());
  return *std::move(weights);
}

void BenchLinear(benchmark::State& state, const Variant& variant) {
  const int64_t num_rows = state.range(0);
  const int64_t num_outputs = state.range(1);
  const int64_t num_inputs = state.range(2);
  const std::unique_ptr<ThreadPool> pool = ThreadPool::Make(1).value();
  const KernelContext context{.table = KernelsFor(variant.isa), .pool = *pool};
  const WeightMatrix weights = MakeWeights(variant.type, num_outputs, num_inputs, *pool);
  std::vector<float> rows(static_cast<size_t>(num_rows * num_inputs));
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i * 31 % 101) - 50.0f;
  const AlignedBytes buffer =
      AlignedBytes::Allocate(RowInputsBytes({.num_rows = num_rows,
                                             .num_inputs = num_inputs,
                                             .precision = variant.precision,
                                             .forms = weights.input_forms()}))
          .value();
  const int64_t stride = num_outputs + 16;
  std::vector<float> out(static_cast<size_t>(num_rows * stride));
  const auto run = [&](const KernelContext& with, int64_t n) {
    const RowInputsShape shape{.num_rows = n,
                               .num_inputs = num_inputs,
                               .precision = variant.precision,
                               .forms = weights.input_forms()};
    const RowInputs inputs =
        QuantizeRows(with, {rows.data(), n, num_inputs}, shape, {buffer.data(), buffer.size()});
    Linear(with, weights, inputs, {out.data(), n, num_outputs, stride});
  };
  // Verified once: the portable kernel gives the same bits for the first row.
  run({.table = KernelsFor(Isa::kPortable), .pool = *pool}, 1);
  const std::vector<float> want(out.begin(), out.begin() + num_outputs);
  run(context, num_rows);
  if (!std::equal(want.begin(), want.end(), out.begin())) {
    state.SkipWithError("bits differ from the portable kernel");
    return;
  }
  for (auto _ : state) {
    run(context, num_rows);
    benchmark::ClobberMemory();
  }
  const double macs = static_cast<double>(num_rows * num_outputs * num_inputs);
  const double peak =
      IsQuantized(variant.type) ? variant.peaks.integer_macs : variant.peaks.float_macs;
  const double times = static_cast<double>(state.iterations());
  const double read_seconds = BestSeconds([&] {
    benchmark::DoNotOptimize(
        context.table.limits->read(weights.panel(0), weights.bytes() / 512 * 512));
  });
  using benchmark::Counter;
  state.counters["GMAC/s"] = Counter(macs * times / 1e9, Counter::kIsRate);
  state.counters["of_peak"] = Counter(macs * times / peak, Counter::kIsRate);
  state.counters["GB/s"] =
      Counter(static_cast<double>(weights.bytes()) * times / 1e9, Counter::kIsRate);
  state.counters["of_read"] = Counter(read_seconds * times, Counter::kIsRate);
}

void Register() {
  for (const Isa isa : RunnableIsas()) {
    const Peaks peaks = MeasurePeaks(isa);
    const std::string isa_name(IsaName(isa));
    benchmark::AddCustomContext(isa_name + " peak, GMAC/s",
                                std::to_string(peaks.integer_macs / 1e9) + " integer, " +
                                    std::to_string(peaks.float_macs / 1e9) + " float");
    for (const DType type : kTypes) {
      for (const Precision precision : {Precision::kFast, Precision::kExact}) {
        const std::string name = "linear/" + isa_name + "/" + std::string(DTypeName(type)) +
                                 (precision == Precision::kFast ? "/fast" : "/exact");
        const Variant variant{.isa = isa, .type = type, .precision = precision, .peaks = peaks};
        benchmark::RegisterBenchmark(
            name.c_str(), [variant](benchmark::State& state) { BenchLinear(state, variant); })
            ->ArgNames({"rows", "outputs", "inputs"})
            ->Args({1, 32768, 4096})
            ->Args({4, 32768, 4096})
            ->Args({512, 1536, 4096})
            ->Args({2, 64, 256});
      }
    }
  }
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  baton::Register();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
