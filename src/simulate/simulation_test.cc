#include "simulate/simulation.h"

#include <gtest/gtest.h>

namespace baton {
namespace {
TEST(Simulation, Day) {
  WorkloadOptions w;
  w.rate = 1.2;
  w.duration = 86400;
  w.prompt_tokens = *LengthDistribution::Parse("lognormal:400,0.8");
  w.output_tokens = *LengthDistribution::Parse("lognormal:100,0.6");
  w.prefix_share = 0.5;
  w.prefix_tokens = 256;
  w.num_prefixes = 4;
  auto load = GenerateWorkload(w);
  SimulationOptions o;
  o.limits = {.max_running = 16,
              .max_context = 8192,
              .max_prefill_rows = 512,
              .max_queue_requests = 1024,
              .max_queue_tokens = 4 << 20,
              .long_prompt_tokens = 2048,
              .max_long_prefills = 2};
  o.kv_tokens = 64 * 1024;
  o.times = {.per_step = 5e-3,
             .per_prefill_token = 5e-4,
             .per_prefill_context = 1e-7,
             .per_decode_row = 1e-3,
             .per_decode_context = 1e-6};
  auto r = Simulate(*load, o);
  ASSERT_TRUE(r.has_value()) << r.error().message;
  printf(
      "arrived %ld completed %ld refused %ld %ld steps %lu seconds %.0f busy %.0f ttft %.3f %.3f "
      "gap %.4f %.4f %.3f gapsteps %.2f residual %.3f queue %ld\n",
      r->arrived, r->completed, r->refused_queue, r->refused_context, r->counts.steps, r->seconds,
      r->busy_seconds, r->ttft.Quantile(0.5), r->ttft.Quantile(.99), r->gap.Quantile(.5),
      r->gap.Quantile(.99), r->gap.max(), r->longest_gap_steps, r->usual_residual,
      r->longest_queue);
}
}  // namespace
}  // namespace baton
