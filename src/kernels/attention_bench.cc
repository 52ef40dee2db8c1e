// attention/<phase>/<isa>/<head_dim>/<heads>/<KV heads>: attention of one sequence, whole
// operation, one thread. prefill: useful GFLOP/s (visible keys only) and their share of the fma
// peak. decode: GB/s of keys and values and their share of the speed at which the same memory can
// be read. Limits are measured in the same run.
// The tests run it with --benchmark_min_time=0 --benchmark_filter=rows:3/.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/attention_decode.h"
#include "kernels/attention_prefill.h"
#include "kernels/limits_ops.h"
#include "tensor/aligned_buffer.h"

namespace baton {
namespace {

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

struct Variant {
  Isa isa;
  bool decode;
  AttentionShape shape;
  double fma_flops;  // of one thread, per second
};

// Queries of num_rows last tokens, and a cache of num_keys tokens with values between 1/2 and 1.
struct Sequence {
  AlignedBuffer<float> q;
  AlignedBytes memory;
  std::vector<const std::byte*> blocks;
  AttentionSequence rows;
  AttentionLayer layer;
};

Sequence MakeSequence(const AttentionShape& shape, int64_t num_rows, int64_t num_keys) {
  Sequence s;
  const KvRecord record{shape.head_dim};
  const size_t block_bytes = record.Bytes() * static_cast<size_t>(shape.num_kv_heads);
  const size_t num_blocks = static_cast<size_t>((num_keys + kBlockTokens - 1) / kBlockTokens);
  s.memory = AlignedBytes::Allocate(num_blocks * block_bytes).value();
  uint16_t* halves = reinterpret_cast<uint16_t*>(s.memory.data());
  uint32_t random = 1;
  for (size_t i = 0; i < s.memory.size() / 2; ++i) {
    random = random * 1664525u + 1013904223u;
    halves[i] = static_cast<uint16_t>(((random >> 16) & 0x83ffu) | 0x3800u);
  }
  for (size_t i = 0; i < num_blocks; ++i) s.blocks.push_back(s.memory.data() + i * block_bytes);
  const size_t q_size = static_cast<size_t>(num_rows * shape.num_heads * shape.head_dim);
  s.q = AlignedBuffer<float>::Allocate(q_size).value();
  for (float& x : s.q) {
    random = random * 1664525u + 1013904223u;
    x = static_cast<float>(random >> 8) * 0x1p-22f - 2.0f;
  }
  s.rows = {.first_row = 0,
            .num_rows = num_rows,
            .first_position = num_keys - num_rows,
            .blocks = s.blocks.data()};
  s.layer = {.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim)),
             .head_stride = record.Bytes()};
  return s;
}

// Query-key pairs that count: what a row sees.
double VisiblePairs(const AttentionShape& shape, int64_t num_rows, int64_t num_keys) {
  const double rows = static_cast<double>(num_rows);
  const double mean_keys = static_cast<double>(num_keys) - (rows - 1) / 2;
  return rows * mean_keys * shape.num_heads;
}

void BenchAttention(benchmark::State& state, const Variant& variant) {
  const int64_t num_rows = state.range(0);
  const int64_t num_keys = state.range(1);
  const AttentionShape& shape = variant.shape;
  const std::unique_ptr<ThreadPool> pool = ThreadPool::Make(1).value();
  const KernelContext context{.table = KernelsFor(variant.isa), .pool = *pool};
  Sequence s = MakeSequence(shape, num_rows, num_keys);
  const int64_t cols = int64_t{shape.num_heads} * shape.head_dim;
  const auto out = AlignedBuffer<float>::Allocate(s.q.size()).value();
  const auto workspace =
      AlignedBytes::Allocate(std::max(PrefillAttentionWorkspaceBytes(shape, 1),
                                      DecodeAttentionWorkspaceBytes(shape, {&s.rows, 1}, 1)))
          .value();
  AttentionArgs args = {.q = {s.q.data(), num_rows, cols},
                        .out = {out.data(), num_rows, cols},
                        .sequences = {&s.rows, 1},
                        .shape = shape,
                        .layer = s.layer,
                        .workspace = {workspace.data(), workspace.size()}};
  const auto run = [&] {
    variant.decode ? DecodeAttention(context, args) : PrefillAttention(context, args);
  };
  run();
  // Verified once: the last row by the portable kernel in the other phase has the same bits.
  const std::vector<float> last(out.end() - cols, out.end());
  const AttentionSequence last_row = {.first_row = num_rows - 1,
                                      .num_rows = 1,
                                      .first_position = num_keys - 1,
                                      .blocks = s.blocks.data()};
  const KernelContext portable{.table = KernelsFor(Isa::kPortable), .pool = *pool};
  args.sequences = {&last_row, 1};
  variant.decode ? PrefillAttention(portable, args) : DecodeAttention(portable, args);
  if (std::memcmp(last.data(), out.end() - cols, last.size() * sizeof(float)) != 0) {
    state.SkipWithError("bits differ from the portable kernel");
    return;
  }
  args.sequences = {&s.rows, 1};
  for (auto _ : state) {
    run();
    benchmark::ClobberMemory();
  }
  using benchmark::Counter;
  const double times = static_cast<double>(state.iterations());
  if (variant.decode) {
    const double bytes = static_cast<double>(num_keys * shape.num_kv_heads * shape.head_dim * 4);
    const double read_seconds = BestSeconds([&] {
      benchmark::DoNotOptimize(context.table.limits->read(
          reinterpret_cast<const uint8_t*>(s.memory.data()), s.memory.size() / 512 * 512));
    });
    const double read_share = read_seconds * bytes / static_cast<double>(s.memory.size());
    state.counters["GB/s"] = Counter(bytes * times / 1e9, Counter::kIsRate);
    state.counters["of_read"] = Counter(read_share * times, Counter::kIsRate);
    return;
  }
  const double flops = VisiblePairs(shape, num_rows, num_keys) * shape.head_dim * 4;
  state.counters["GFLOP/s"] = Counter(flops * times / 1e9, Counter::kIsRate);
  state.counters["of_peak"] = Counter(flops * times / variant.fma_flops, Counter::kIsRate);
}

void Register() {
  for (const Isa isa : RunnableIsas()) {
    constexpr int64_t kTimes = 2'000'000;
    const LimitsOps& limits = *KernelsFor(isa).limits;
    const double peak = static_cast<double>(kTimes * kFloatMacs) * 2 /
                        BestSeconds([&] { benchmark::DoNotOptimize(limits.float_macs(kTimes)); });
    const std::string isa_name(IsaName(isa));
    benchmark::AddCustomContext(isa_name + " fma peak, GFLOP/s", std::to_string(peak / 1e9));
    const auto add = [&](const std::string& phase, const AttentionShape& shape) {
      const Variant variant{
          .isa = isa, .decode = phase == "decode", .shape = shape, .fma_flops = peak};
      const std::string name =
          "attention/" + phase + "/" + isa_name + "/" + std::to_string(shape.head_dim) + "/" +
          std::to_string(shape.num_heads) + "/" + std::to_string(shape.num_kv_heads);
      return benchmark::RegisterBenchmark(
                 name.c_str(),
                 [variant](benchmark::State& state) { BenchAttention(state, variant); })
          ->ArgNames({"rows", "keys"})
          ->Args({3, 70});
    };
    for (const AttentionShape& shape :
         {AttentionShape{3, 1, 64}, AttentionShape{4, 1, 128}, AttentionShape{4, 1, 256}}) {
      add("prefill", shape)->Args({512, 512})->Args({512, 4096})->Args({512, 16384});
    }
    for (const AttentionShape& shape :
         {AttentionShape{9, 3, 64}, AttentionShape{32, 8, 64}, AttentionShape{32, 8, 128}}) {
      add("decode", shape)->Args({1, 4096})->Args({1, 32768});
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
