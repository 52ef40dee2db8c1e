// The engine's books, as others see them.
#include <algorithm>

#include "engine/engine_loop.h"

namespace baton {
namespace {

double AgeSeconds(const LiveRequest& live, int64_t now_ns) {
  return static_cast<double>(now_ns - live.submitted_ns()) * 1e-9;
}

}  // namespace

// What the step at work has read so far, counted by layers.
uint64_t Engine::Loop::UnfinishedPromptTokens() const {
  int64_t tokens = 0;
  for (const auto& sequence : scheduler_.running()) {
    const Request& ledger = sequence->ledger;
    if (!sequence->is_prefill()) continue;
    tokens += std::clamp(live_.at(sequence->spec.id)->read_tokens(), ledger.computed,
                         ledger.num_known()) -
              ledger.computed;
  }
  return static_cast<uint64_t>(tokens);
}

void Engine::Loop::ListRunning(EngineStatus& status, int64_t now_ns) const {
  for (const auto& sequence : scheduler_.running()) {
    const Request& ledger = sequence->ledger;
    const LiveRequest& live = *live_.at(sequence->spec.id);
    status.running.push_back(
        {.id = live.id(),
         .label = live.request().label,
         .prompt_tokens = ledger.num_prompt,
         .cached_tokens = sequence->hit_tokens,
         .computed_tokens = std::clamp(live.read_tokens(), ledger.computed, ledger.num_known()),
         .generated_tokens = ledger.num_generated(),
         .blocks = std::ssize(sequence->table.blocks()),
         .age_seconds = AgeSeconds(live, now_ns),
         .is_prefill = sequence->is_prefill()});
  }
}

// Those in the inbox, those for whom the disk is asked, and the scheduler's queue.
void Engine::Loop::ListWaiting(EngineStatus& status, int64_t now_ns) {
  std::vector<const LiveRequest*> waiting;
  const auto add = [&](const LiveRequest& live) {
    ++status.waiting_requests;
    status.waiting_tokens += live.num_prompt();
    waiting.push_back(&live);
  };
  for (const auto& [id, live] : live_) {
    const Sequence* sequence = scheduler_.Find(id);
    if (sequence == nullptr || sequence->slot < 0) add(*live);
  }
  const auto list = [&] {
    const size_t listed = std::min(waiting.size(), EngineStatus::kMaxListedWaiting);
    std::partial_sort(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(listed),
                      waiting.end(),
                      [](const LiveRequest* a, const LiveRequest* b) { return a->id() < b->id(); });
    for (const LiveRequest* live : std::span(waiting).first(listed)) {
      status.waiting.push_back({.id = live->id(),
                                .label = live->request().label,
                                .prompt_tokens = live->num_prompt(),
                                .generated_tokens = live->num_generated(),
                                .age_seconds = AgeSeconds(*live, now_ns)});
    }
  };
  // What has arrived may be taken only while nobody looks: listed before the inbox is let go.
  inbox_.ShowArrived([&](std::span<const std::unique_ptr<LiveRequest>> arrived) {
    for (const auto& live : arrived) add(*live);
    list();
  });
}

EngineStatus Engine::Loop::Status() {
  const std::lock_guard lock(books_);
  const int64_t now = clock_.NowNs();
  EngineStatus status = counters_;
  ListRunning(status, now);
  ListWaiting(status, now);
  status.max_running = config_.max_running;
  status.rates = rates_.At(now, {.prompt = UnfinishedPromptTokens(), .generated = 0});
  status.block_tokens = kBlockTokens;
  status.kv_type = KvTypeName(pool_.layout().shape().type);
  status.blocks_free = pool_.num_free();
  status.blocks_owned = pool_.num_owned();
  status.blocks_cached = pool_.num_cached();
  const ScheduleCounts& counts = scheduler_.counts();
  status.prompt_tokens = counts.prompt_tokens;
  status.generated_tokens = generated_tokens_;
  status.prefix_queries = counts.prefix_queries;
  status.prefix_hit_tokens = counts.prefix_hit_tokens;
  status.preemptions = counts.preemptions;
  const DiskCacheCounters disk = disk_ == nullptr ? DiskCacheCounters() : disk_->counters();
  status.disk_blocks_read = disk.tier.hits;
  status.disk_blocks_written = disk.tier.written;
  status.disk_blocks_skipped = disk.skipped;
  status.disk_blocks_failed = disk.failed;
  return status;
}

}  // namespace baton
