#include "schedule/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/number_text.h"

namespace baton {
namespace {

// How much of what a row with logits took in the last step goes into the mean.
constexpr double kLogitMemory = 0.25;

}  // namespace

Scheduler::Scheduler(const Parts& parts)
    : pool_(&parts.pool),
      limits_(parts.limits),
      time_model_(parts.time_model),
      index_(parts.pool, {.key = parts.kv_key}),
      next_deadline_(std::numeric_limits<double>::infinity()) {
  const auto most = static_cast<size_t>(limits_.max_running);
  running_.reserve(most);
  planned_.reserve(most);
  spare_.resize(most);
  for (SequenceStep& step : spare_) {
    step.blocks.reserve(static_cast<size_t>(NumBlocksFor(limits_.max_context)));
    step.tokens.reserve(
        static_cast<size_t>(std::min(limits_.max_prefill_rows, limits_.max_context)));
    step.logit_rows.reserve(step.tokens.capacity());
  }
  plan_.sequences.reserve(most);
  candidates_.reserve(most);
  decoding_.reserve(most);
  prefilling_.reserve(most);
  chunks_.reserve(most);
  victims_.reserve(most);
  published_.reserve(most);
  for (int32_t slot = limits_.max_running - 1; slot >= 0; --slot) free_slots_.push_back(slot);
}

Scheduler::QueueKey Scheduler::KeyOf(const Sequence& sequence) {
  return {-int64_t{sequence.spec.priority}, sequence.order};
}

Result<> Scheduler::Submit(SequenceSpec spec) {
  const auto num_prompt = static_cast<int64_t>(spec.prompt.size());
  CHECK_GE(num_prompt, 1);
  CHECK_GT(spec.max_known, num_prompt);
  CHECK_LE(spec.max_known, limits_.max_context);
  CHECK(!by_id_.contains(spec.id));
  if (NumBlocksFor(spec.max_known) > pool_->num_blocks()) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("a prompt of {} and {} more can never fit into a cache of {} "
                            "tokens; ask for fewer tokens or start with a larger cache",
                            CountOf(num_prompt, "token"), spec.max_known - num_prompt,
                            int64_t{pool_->num_blocks()} * kBlockTokens));
  }
  if (num_waiting() >= limits_.max_queue_requests) {
    return Fail(ErrorCode::kExhausted,
                fmt::format("the queue is full with {} waiting; try again later",
                            CountOf(num_waiting(), "request")));
  }
  if (waiting_tokens_ + num_prompt > limits_.max_queue_tokens) {
    return Fail(
        ErrorCode::kExhausted,
        fmt::format("the queue is full with {} waiting, and {} more exceed the "
                    "limit of {}; try again later",
                    CountOf(waiting_tokens_, "token"), num_prompt, limits_.max_queue_tokens));
  }
  auto sequence = std::make_unique<Sequence>(Sequence{.ledger = {.id = spec.id,
                                                                 .known = std::move(spec.prompt),
                                                                 .num_prompt = num_prompt,
                                                                 .computed = 0},
                                                      .spec = {},
                                                      .table = BlockTable(*pool_, 0)});
  sequence->spec = std::move(spec);
  sequence->ledger.known.reserve(static_cast<size_t>(sequence->spec.max_known));
  sequence->order = next_order_++;
  sequence->known_at_admission = num_prompt;
  waiting_tokens_ += num_prompt;
  next_deadline_ = std::min(next_deadline_, sequence->spec.deadline);
  by_id_.emplace(sequence->spec.id, sequence.get());
  look_at_queue_ = true;
  const QueueKey key = KeyOf(*sequence);
  waiting_.emplace(key, std::move(sequence));
  return {};
}

void Scheduler::End(uint64_t id) {
  CHECK(planned_.empty());
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  look_at_queue_ = true;
  Sequence* sequence = found->second;
  by_id_.erase(found);
  if (sequence->slot < 0) {
    waiting_tokens_ -= sequence->ledger.num_known();
    waiting_.erase(KeyOf(*sequence));
    return;
  }
  const auto it = std::ranges::find(running_, sequence, &std::unique_ptr<Sequence>::get);
  std::unique_ptr<Sequence> ended = TakeFromRunning(static_cast<size_t>(it - running_.begin()));
  if (ended->spec.session == 0 || ended->ledger.computed == 0) return;
  // What is pending is not in the cache; the next request of the session brings it.
  ended->ledger.computed = std::min(ended->ledger.computed, ended->spec.reuse.clean_tokens);
  if (ended->ledger.computed == 0) return;
  ended->table.Truncate(ended->ledger.computed);
  sessions_.Put(ended->spec.session, {.ledger = std::move(ended->ledger),
                                      .table = std::move(ended->table),
                                      .salt = ended->spec.salt});
}

std::unique_ptr<Sequence> Scheduler::TakeFromRunning(size_t index) {
  std::unique_ptr<Sequence> sequence = std::move(running_[index]);
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
  free_slots_.push_back(sequence->slot);
  sequence->slot = -1;
  return sequence;
}

std::span<const uint64_t> Scheduler::Expired(double now) {
  expired_.clear();
  if (now < next_deadline_) return expired_;
  next_deadline_ = std::numeric_limits<double>::infinity();
  const auto look = [&](const Sequence& sequence) {
    if (sequence.spec.deadline <= now) {
      expired_.push_back(sequence.spec.id);
    } else {
      next_deadline_ = std::min(next_deadline_, sequence.spec.deadline);
    }
  };
  for (const auto& sequence : running_) look(*sequence);
  for (const auto& [key, sequence] : waiting_) look(*sequence);
  return expired_;
}

void Scheduler::Commit(double seconds) {
  if (plan_.sequences.empty()) return;
  published_.clear();
  LearnFromStep(seconds);
  ++counts_.steps;
  for (const auto& sequence : running_) ++sequence->waited;
  for (size_t i = 0; i < planned_.size(); ++i) {
    Sequence& sequence = *planned_[i];
    const int64_t count = plan_.sequences[i].num_rows();
    const int64_t before = sequence.ledger.computed;
    const int64_t of_prompt = std::clamp<int64_t>(sequence.ledger.num_prompt - before, 0, count);
    counts_.prompt_tokens += static_cast<uint64_t>(of_prompt);
    counts_.other_tokens += static_cast<uint64_t>(count - of_prompt);
    // What it read may be what another one waits for.
    look_at_queue_ = look_at_queue_ || plan_.sequences[i].phase == Phase::kPrefill;
    sequence.waited = 0;
    sequence.table.Append(count);
    sequence.ledger.AdvanceComputed(count);
    sequence.logits_told = std::max(
        sequence.logits_told, std::min(sequence.ledger.computed, sequence.ledger.num_prompt - 1));
    const int64_t complete =
        std::min(sequence.ledger.computed, sequence.spec.reuse.clean_tokens) / kBlockTokens;
    if (!limits_.prefix_cache || complete <= sequence.published_blocks) continue;
    const auto accepted = static_cast<size_t>(complete * kBlockTokens);
    const int64_t first_block = sequence.published_blocks;
    sequence.published_blocks =
        index_.Publish({.tokens = std::span(sequence.ledger.known).first(accepted),
                        .table = sequence.table,
                        .salt = sequence.spec.salt,
                        .first_block = sequence.published_blocks});
    if (sequence.published_blocks > first_block) {
      published_.push_back({.sequence = &sequence,
                            .first_block = first_block,
                            .end_block = sequence.published_blocks});
    }
  }
  planned_.clear();
}

// The formula knows of one row with logits for each sequence: what a prompt's others take on top of
// what it predicts is kept apart.
void Scheduler::LearnFromStep(double seconds) {
  int64_t rows = 0;
  for (const SequenceStep& step : plan_.sequences) {
    rows += step.logits == LogitRows::kList ? step.num_logit_rows() : 0;
  }
  if (rows == 0) return Learn(features_, seconds);
  const double each =
      std::max(seconds - time_model_.Predict(features_), 0.0) / static_cast<double>(rows);
  const double before = prompt_logit_seconds_.value_or(each);
  prompt_logit_seconds_ = before + kLogitMemory * (each - before);
}

void Scheduler::Abandon() {
  planned_.clear();
}

void Scheduler::Push(uint64_t id, TokenId token) {
  Sequence& sequence = *by_id_.at(id);
  CHECK_GE(sequence.slot, 0);
  CHECK_EQ(sequence.ledger.num_pending(), 0);
  CHECK_LT(sequence.ledger.num_known(), sequence.spec.max_known);
  sequence.ledger.known.push_back(token);
}

const Sequence* Scheduler::Find(uint64_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

bool Scheduler::MakeFree(int64_t num_blocks) {
  if (num_blocks <= pool_->num_free()) return true;
  while (pool_->num_free() + pool_->num_cached() < num_blocks && sessions_.DropOldestBut(0)) {
  }
  const int64_t missing = num_blocks - pool_->num_free();
  if (missing > 0) index_.Evict(missing);
  return pool_->num_free() >= num_blocks;
}

Result<> Scheduler::CheckIntegrity() const {
  if (Result<> pool = pool_->CheckIntegrity(); !pool) return pool;
  if (Result<> index = index_.CheckIntegrity(); !index) return index;
  std::vector<const BlockTable*> tables;
  for (const auto& sequence : running_) tables.push_back(&sequence->table);
  for (const auto& [key, sequence] : waiting_) tables.push_back(&sequence->table);
  sessions_.ForEachTable([&](const BlockTable& table) { tables.push_back(&table); });
  if (Result<> references = CheckReferences(*pool_, tables); !references) return references;
  if (AvailableBlocks() >= OutstandingBlocks()) return {};
  return Fail(ErrorCode::kInternal, fmt::format("{} blocks are promised and only {} can be had",
                                                OutstandingBlocks(), AvailableBlocks()));
}

}  // namespace baton
