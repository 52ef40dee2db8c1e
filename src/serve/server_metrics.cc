#include "serve/server_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>

namespace baton {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Registry;

// From a token of a small model to the prefill of a book. Units: seconds.
const Histogram::BucketBoundaries& WaitBuckets() {
  static const Histogram::BucketBoundaries buckets = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                                                      2.5,  5,     10,   25,  50,   100, 250};
  return buckets;
}
const Histogram::BucketBoundaries& GapBuckets() {
  static const Histogram::BucketBoundaries buckets = {0.002, 0.005, 0.01, 0.02, 0.04, 0.08,
                                                      0.15,  0.3,   0.6,  1.2,  2.5,  5};
  return buckets;
}

Counter& MakeCounter(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
}
Gauge& MakeGauge(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
}
Histogram& MakeHistogram(Registry& registry, const char* name, const char* help,
                         const Histogram::BucketBoundaries& buckets) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, buckets);
}

// Brings a counter to what the engine has counted.
void CatchUp(Counter& counter, double now) {
  counter.Increment(std::max(now - counter.Value(), 0.0));
}

}  // namespace

struct ServerMetrics::Parts {
  Registry registry;
  Gauge& running = MakeGauge(registry, "baton_requests_running", "Requests in prefill or decode.");
  Gauge& waiting = MakeGauge(registry, "baton_requests_waiting", "Requests in the queue.");
  Gauge& queue_tokens = MakeGauge(registry, "baton_queue_tokens", "Prompt tokens in the queue.");
  prometheus::Family<Gauge>& blocks = prometheus::BuildGauge()
                                          .Name("baton_kv_blocks")
                                          .Help("Blocks of the KV cache by state.")
                                          .Register(registry);
  Gauge& blocks_free = blocks.Add({{"state", "free"}});
  Gauge& blocks_owned = blocks.Add({{"state", "owned"}});
  Gauge& blocks_cached = blocks.Add({{"state", "cached"}});
  prometheus::Family<Counter>& disk = prometheus::BuildCounter()
                                          .Name("baton_kv_disk_blocks_total")
                                          .Help(
                                              "Blocks of the KV cache on disk: read, written, "
                                              "skipped since too many waited, failed since the "
                                              "disk refused.")
                                          .Register(registry);
  Counter& disk_read = disk.Add({{"outcome", "read"}});
  Counter& disk_written = disk.Add({{"outcome", "written"}});
  Counter& disk_skipped = disk.Add({{"outcome", "skipped"}});
  Counter& disk_failed = disk.Add({{"outcome", "failed"}});
  Gauge& connections =
      MakeGauge(registry, "baton_http_connections", "Connections of clients, open now.");
  prometheus::Family<Counter>& requests = prometheus::BuildCounter()
                                              .Name("baton_requests_total")
                                              .Help("Ended requests for completions, by outcome.")
                                              .Register(registry);
  Counter& prompt_tokens = MakeCounter(registry, "baton_prompt_tokens_total",
                                       "Prompt tokens computed (not found in the cache).");
  Counter& generated_tokens =
      MakeCounter(registry, "baton_generated_tokens_total", "Tokens generated.");
  Counter& prefix_queries = MakeCounter(registry, "baton_prefix_queries_total",
                                        "Times a prompt was looked up in the cache.");
  Counter& prefix_hit_tokens =
      MakeCounter(registry, "baton_prefix_hit_tokens_total", "Prompt tokens found in the cache.");
  Counter& preemptions = MakeCounter(registry, "baton_preemptions_total",
                                     "Times a request lost its blocks to an older one.");
  Counter& steps = MakeCounter(registry, "baton_engine_steps_total", "Steps of the engine.");
  Counter& forward_seconds = MakeCounter(registry, "baton_engine_forward_seconds_total",
                                         "Time in the forward pass of steps.");
  Counter& sampling_seconds =
      MakeCounter(registry, "baton_engine_sampling_seconds_total", "Time of choosing tokens.");
  Counter& other_seconds =
      MakeCounter(registry, "baton_engine_other_seconds_total",
                  "Time of the engine's loop without forward pass, sampling and sleep.");
  prometheus::Family<Counter>& prefills =
      prometheus::BuildCounter()
          .Name("baton_prefills_total")
          .Help("Choices that ended after their prompt was read, by how it was.")
          .Register(registry);
  Counter& dense_prefills = prefills.Add({{"policy", "dense"}});
  Counter& sparse_prefills = prefills.Add({{"policy", "sparse"}});
  prometheus::Family<Counter>& sparse_blocks =
      prometheus::BuildCounter()
          .Name("baton_sparse_prefill_blocks_total")
          .Help(
              "Blocks of the past in sparse prefills, of all tiles, layers and heads: read and "
              "left out. Their density is read / (read + skipped).")
          .Register(registry);
  Counter& blocks_read = sparse_blocks.Add({{"state", "read"}});
  Counter& blocks_skipped = sparse_blocks.Add({{"state", "skipped"}});
  prometheus::Family<Counter>& sparse_seconds =
      prometheus::BuildCounter()
          .Name("baton_sparse_prefill_thread_seconds_total")
          .Help("Time of all threads in sparse prefills, by stage.")
          .Register(registry);
  Counter& pack_seconds = sparse_seconds.Add({{"stage", "pack"}});
  Counter& score_seconds = sparse_seconds.Add({{"stage", "score"}});
  Counter& select_seconds = sparse_seconds.Add({{"stage", "select"}});
  Counter& attend_seconds = sparse_seconds.Add({{"stage", "attend"}});
  Counter& correct_seconds = sparse_seconds.Add({{"stage", "correct"}});
  Histogram& first_token = MakeHistogram(registry, "baton_time_to_first_token_seconds",
                                         "From a request to its first token.", WaitBuckets());
  Histogram& token_gap = MakeHistogram(registry, "baton_inter_token_latency_seconds",
                                       "From one token of a choice to the next.", GapBuckets());
  Histogram& queue = MakeHistogram(registry, "baton_queue_seconds",
                                   "From a request to its first step.", WaitBuckets());
  Histogram& prefill =
      MakeHistogram(registry, "baton_prefill_seconds",
                    "From a request's first step to its first token.", WaitBuckets());
  Histogram& decode = MakeHistogram(registry, "baton_decode_seconds",
                                    "From a choice's first token to its last.", WaitBuckets());
};

ServerMetrics::ServerMetrics() : parts_(std::make_unique<Parts>()) {}
ServerMetrics::~ServerMetrics() = default;

void ServerMetrics::NoteTokenGap(double seconds) {
  parts_->token_gap.Observe(seconds);
}

void ServerMetrics::NoteGeneration(const GenerationFigures& figures) {
  parts_->queue.Observe(figures.queue_seconds);
  if (figures.generated_tokens == 0) return;
  parts_->first_token.Observe(figures.first_token_seconds);
  parts_->prefill.Observe(figures.prefill_seconds);
  NotePrefill(figures.prefill);
  parts_->decode.Observe(figures.decode_seconds);
}

void ServerMetrics::NotePrefill(const std::optional<PrefillReport>& report) {
  (report ? parts_->sparse_prefills : parts_->dense_prefills).Increment();
  if (!report) return;
  for (const BlockCounts& layer : report->layers) {
    parts_->blocks_read.Increment(static_cast<double>(layer.kept));
    parts_->blocks_skipped.Increment(static_cast<double>(layer.candidates - layer.kept));
  }
  const auto add = [](Counter& counter, int64_t ns) {
    counter.Increment(static_cast<double>(ns) * 1e-9);
  };
  add(parts_->pack_seconds, report->times.pack);
  add(parts_->score_seconds, report->times.score);
  add(parts_->select_seconds, report->times.select);
  add(parts_->attend_seconds, report->times.attend);
  add(parts_->correct_seconds, report->times.correct);
}

void ServerMetrics::NoteRequest(std::string_view outcome) {
  parts_->requests.Add({{"outcome", std::string(outcome)}}).Increment();
}

std::string ServerMetrics::Text(const EngineStatus* status, int64_t num_connections) {
  parts_->connections.Set(static_cast<double>(num_connections));
  if (status != nullptr) {
    parts_->running.Set(static_cast<double>(status->running.size()));
    parts_->waiting.Set(static_cast<double>(status->waiting_requests));
    parts_->queue_tokens.Set(static_cast<double>(status->waiting_tokens));
    parts_->blocks_free.Set(static_cast<double>(status->blocks_free));
    parts_->blocks_owned.Set(static_cast<double>(status->blocks_owned));
    parts_->blocks_cached.Set(static_cast<double>(status->blocks_cached));
    CatchUp(parts_->prompt_tokens, static_cast<double>(status->prompt_tokens));
    CatchUp(parts_->generated_tokens, static_cast<double>(status->generated_tokens));
    CatchUp(parts_->prefix_queries, static_cast<double>(status->prefix_queries));
    CatchUp(parts_->prefix_hit_tokens, static_cast<double>(status->prefix_hit_tokens));
    CatchUp(parts_->disk_read, static_cast<double>(status->disk_blocks_read));
    CatchUp(parts_->disk_written, static_cast<double>(status->disk_blocks_written));
    CatchUp(parts_->disk_skipped, static_cast<double>(status->disk_blocks_skipped));
    CatchUp(parts_->disk_failed, static_cast<double>(status->disk_blocks_failed));
    CatchUp(parts_->preemptions, static_cast<double>(status->preemptions));
    CatchUp(parts_->steps, static_cast<double>(status->steps));
    CatchUp(parts_->forward_seconds, status->forward_seconds);
    CatchUp(parts_->sampling_seconds, status->sampling_seconds);
    CatchUp(parts_->other_seconds, status->other_seconds);
  }
  return prometheus::TextSerializer().Serialize(parts_->registry.Collect());
}

}  // namespace baton
