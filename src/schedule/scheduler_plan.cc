// What a step computes: the part of the scheduler that looks at the running sequences.
#include <algorithm>
#include <limits>

#include "base/check.h"
#include "schedule/scheduler.h"

namespace baton {
namespace {

// A step is planned for this share of the longest gap, since what it will take is only predicted.
constexpr double kGapShare = 0.75;

}  // namespace

int64_t Scheduler::AvailableBlocks() const {
  return pool_->num_free() + pool_->num_cached();
}

int64_t Scheduler::OutstandingBlocks() const {
  int64_t blocks = 0;
  for (const auto& sequence : running_) blocks += sequence->outstanding_blocks();
  return blocks;
}

const StepPlan& Scheduler::Plan() {
  CHECK(planned_.empty());
  while (!plan_.sequences.empty()) {
    spare_.push_back(std::move(plan_.sequences.back()));
    plan_.sequences.pop_back();
  }
  features_ = StepFeatures();
  RenewTheOldestsPromise();
  PlanDecodes();
  Admit();
  PlanPrefills();
  return plan_;
}

// The steps after which a sequence has gained what S-5 asks for, at most.
int64_t Scheduler::StepsUntilItMayBePreempted(const Sequence& sequence) const {
  const int64_t missing = limits_.min_progress_tokens - sequence.progress();
  if (missing <= 0) return 0;
  const int64_t pending = sequence.ledger.num_pending();
  if (pending <= 1) return missing;
  // Its first chunk may end early, on the grid.
  const int64_t least =
      LeastChunk(limits_.max_prefill_rows, limits_.max_running, limits_.max_prefill_wait);
  const int64_t chunks = (pending + least - 1) / least + 1;
  return chunks * limits_.max_prefill_wait + missing;
}

// So many that it advances, whatever the others do, until they may be preempted for it; at least
// one more than it has, but no more than it can ever use.
int64_t Scheduler::BlocksOfTheOldest(const Sequence& oldest, const Sequence* newcomer) const {
  int64_t steps = newcomer == nullptr ? 0 : StepsUntilItMayBePreempted(*newcomer);
  for (const auto& other : running_) {
    if (other.get() != &oldest) steps = std::max(steps, StepsUntilItMayBePreempted(*other));
  }
  const int64_t known = oldest.ledger.num_known();
  const int64_t blocks =
      std::max({NumBlocksFor(known) + 1, std::ssize(oldest.table.blocks()) + int64_t{1},
                NumBlocksFor(known + steps)});
  return std::min(blocks, NumBlocksFor(oldest.spec.max_known));
}

// Kept sessions and other sequences give way where it lacks some.
void Scheduler::RenewTheOldestsPromise() {
  if (running_.empty()) return;
  Sequence& oldest = *running_.front();
  const int64_t held = std::ssize(oldest.table.blocks());
  oldest.promised_blocks = std::max(held, BlocksOfTheOldest(oldest, /*newcomer=*/nullptr));
  while (AvailableBlocks() < OutstandingBlocks()) {
    if (sessions_.DropOldestBut(0) || PreemptOne()) continue;
    oldest.promised_blocks -= OutstandingBlocks() - AvailableBlocks();
  }
}

// How long a step with these streams may take. Units: seconds.
double Scheduler::GapSeconds(const StepFeatures& streams) const {
  return kGapShare * limits_.max_gap_steps * time_model_.Predict(streams);
}

void Scheduler::PlanDecodes() {
  decoding_.clear();
  for (const auto& sequence : running_) {
    if (sequence->ledger.num_pending() == 1 && !sequence->HasSparseRow())
      decoding_.push_back(sequence.get());
  }
  for (Sequence* sequence : decoding_) {
    // The older ones may have preempted it.
    if (sequence->slot >= 0 && MakeRoomForOne(*sequence)) AddStep(*sequence, 1, Phase::kDecode);
  }
}

bool Scheduler::HasRoomForOne(const Sequence& sequence) {
  return sequence.outstanding_blocks() > 0 || sequence.table.BlocksToReserve(1) == 0;
}

// Gives the sequence a block that nobody was promised, or one of a younger sequence that is
// preempted for it, which may be itself. Returns whether it can take the next token.
bool Scheduler::MakeRoomForOne(Sequence& sequence) {
  if (HasRoomForOne(sequence)) return true;
  while (UnpromisedBlocks() < 1) {
    if (sessions_.DropOldestBut(0)) continue;
    if (!PreemptOne() || sequence.slot < 0) return false;
  }
  sequence.promised_blocks = std::ssize(sequence.table.blocks()) + 1;
  return true;
}

bool Scheduler::PreemptOne() {
  victims_.clear();
  for (const auto& sequence : running_) {
    // What is in the plan already is computed first.
    const bool is_planned = std::ranges::find(planned_, sequence.get()) != planned_.end();
    victims_.push_back(
        {.priority = sequence->spec.priority, .progress = is_planned ? -1 : sequence->progress()});
  }
  const std::optional<size_t> victim = ChooseVictim(victims_, limits_.min_progress_tokens);
  if (!victim) return false;
  Preempt(*victim);
  return true;
}

void Scheduler::Preempt(size_t running_index) {
  std::unique_ptr<Sequence> sequence = TakeFromRunning(running_index);
  sequence->table.Clear();
  sequence->ledger.computed = 0;
  sequence->published_blocks = 0;
  sequence->promised_blocks = 0;
  sequence->known_at_admission = sequence->ledger.num_known();
  ++sequence->preemptions;
  ++counts_.preemptions;
  waiting_tokens_ += sequence->ledger.num_known();
  look_at_queue_ = true;
  const QueueKey key = KeyOf(*sequence);
  waiting_.emplace(key, std::move(sequence));
}

void Scheduler::PlanPrefills() {
  candidates_.clear();
  prefilling_.clear();
  for (const auto& sequence : running_) {
    if (std::ranges::find(planned_, sequence.get()) != planned_.end()) continue;
    const Request& ledger = sequence->ledger;
    if (ledger.num_pending() == 0 || !HasRoomForOne(*sequence)) continue;
    prefilling_.push_back(sequence.get());
    candidates_.push_back(
        {.computed = ledger.computed,
         .pending = ledger.num_pending(),
         .waited = sequence->waited,
         .is_long = ledger.num_pending() > limits_.long_prompt_tokens,
         .unit = sequence->spec.reuse.unit,
         .logit_seconds = sequence->wants_prompt_logits() ? PromptLogitSeconds() : 0.0});
  }
  if (prefilling_.empty()) return;
  chunks_.resize(candidates_.size());
  const bool holds_up_streams = !planned_.empty();
  const double seconds =
      holds_up_streams ? GapSeconds(features_) : std::numeric_limits<double>::infinity();
  ChoosePrefillChunks(time_model_, candidates_,
                      {.rows = limits_.max_prefill_rows,
                       .seconds = seconds,
                       .max_wait = limits_.max_prefill_wait,
                       .decode = features_},
                      chunks_);
  for (size_t i = 0; i < prefilling_.size(); ++i) {
    if (chunks_[i] > 0) AddStep(*prefilling_[i], chunks_[i], Phase::kPrefill);
  }
}

// What a row of a prompt with logits is taken to cost beyond one without: like a row of a stream,
// as long as none was seen. Units: seconds.
double Scheduler::PromptLogitSeconds() const {
  return prompt_logit_seconds_.value_or(time_model_.coefficients().per_decode_row);
}

// The last known token's, and those of a prompt whose log-probabilities are wanted.
void Scheduler::AskForLogits(const Sequence& sequence, SequenceStep& step) {
  const Request& ledger = sequence.ledger;
  const bool ends = step.num_rows() == ledger.num_pending();
  step.logits = ends ? LogitRows::kLast : LogitRows::kNone;
  step.logit_rows.clear();
  if (!sequence.wants_prompt_logits()) return;
  const int64_t first = std::max(sequence.logits_told, step.first_position);
  const int64_t end = std::min(step.end_position(), ledger.num_prompt - 1);
  for (int64_t i = first; i < end; ++i) {
    step.logit_rows.push_back(static_cast<int32_t>(i - step.first_position));
  }
  if (step.logit_rows.empty()) return;
  if (ends) step.logit_rows.push_back(static_cast<int32_t>(step.num_rows() - 1));
  step.logits = LogitRows::kList;
}

void Scheduler::AddStep(Sequence& sequence, int64_t num_tokens, Phase phase) {
  const Request& ledger = sequence.ledger;
  // Promised blocks can be had: CheckIntegrity compares both.
  CHECK(MakeFree(sequence.table.BlocksToReserve(num_tokens)));
  const Result<> reserved = sequence.table.Reserve(num_tokens);
  CHECK(reserved.has_value());
  if (spare_.empty()) {
    plan_.sequences.emplace_back();
  } else {
    plan_.sequences.push_back(std::move(spare_.back()));
    spare_.pop_back();
  }
  SequenceStep& step = plan_.sequences.back();
  step.slot = sequence.slot;
  step.first_position = ledger.computed;
  const auto first = ledger.known.begin() + ledger.computed;
  step.tokens.assign(first, first + num_tokens);
  step.blocks.assign(sequence.table.blocks().begin(), sequence.table.blocks().end());
  step.phase = phase;
  step.prompt_tokens = sequence.spec.reuse.is_sparse ? ledger.num_prompt : 0;
  AskForLogits(sequence, step);
  planned_.push_back(&sequence);
  if (phase == Phase::kDecode) {
    features_.AddDecode(ledger.computed);
  } else {
    features_.AddPrefill(num_tokens, ledger.computed);
  }
}

}  // namespace baton
