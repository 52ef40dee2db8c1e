// Who is admitted: the part of the scheduler that looks at the queue.
#include <algorithm>

#include "base/check.h"
#include "schedule/scheduler.h"

namespace baton {
namespace {

// Waiting sequences that one step looks at: what does not fit may be passed, at a bounded cost.
constexpr int kLookAhead = 32;

// A sequence that was preempted comes back when there is so much more room for each running one: it
// would else soon be preempted again, having been read once more for little.
constexpr int64_t kCalmBlocks = 2;

// S-6, but no more than it can ever use.
int64_t PromptAndOneBlock(const Sequence& sequence) {
  return std::min(NumBlocksFor(sequence.ledger.num_known()) + 1,
                  NumBlocksFor(sequence.spec.max_known));
}

}  // namespace

Scheduler::Queue::iterator Scheduler::Oldest() {
  return std::ranges::min_element(waiting_, {},
                                  [](const auto& entry) { return entry.second->order; });
}

void Scheduler::Admit() {
  if (!look_at_queue_) return;
  look_at_queue_ = false;
  while (!waiting_.empty() && std::ssize(running_) < limits_.max_running && AdmitOne()) {
  }
}

bool Scheduler::AdmitOne() {
  Sequence& oldest = *Oldest()->second;
  if (oldest.passes >= limits_.max_passes) {
    // Nobody passes it for ever: while it lacks room, nobody else is given any. Whoever waits for
    // something else than room holds nobody up.
    const Admission admission = TryAdmit(oldest);
    if (admission != Admission::kNotYet) return admission == Admission::kDone;
  }
  int looked = 0;
  for (const auto& [key, sequence] : waiting_) {
    if (++looked > kLookAhead) return false;
    const Admission admission = TryAdmit(*sequence);
    if (admission == Admission::kDone) return true;
    // A stream was interrupted: nobody behind it takes the room that it waits for.
    if (admission == Admission::kNoRoom && sequence->preemptions > 0) return false;
  }
  return false;
}

// Of a session it keeps only what the sequence can go on from.
Scheduler::Hit Scheduler::Look(const Sequence& sequence) {
  const Request& ledger = sequence.ledger;
  Hit hit;
  const int64_t most = sequence.reusable_tokens();
  const int64_t unit = sequence.spec.reuse.unit;
  if (limits_.prefix_cache) {
    hit.blocks = index_.Find(
        {.tokens = ledger.known, .salt = sequence.spec.salt, .max_blocks = most / kBlockTokens});
    hit.tokens = std::ssize(hit.blocks) * kBlockTokens / unit * unit;
    hit.blocks = hit.blocks.first(static_cast<size_t>(NumBlocksFor(hit.tokens)));
  }
  if (sequence.spec.session == 0) return hit;
  KeptSequence* kept = sessions_.Find(sequence.spec.session);
  if (kept == nullptr || kept->salt != sequence.spec.salt) return hit;
  const int64_t limit = std::min(kept->ledger.computed, most);
  const auto end =
      std::mismatch(ledger.known.begin(), ledger.known.begin() + limit, kept->ledger.known.begin())
          .first;
  int64_t common = (end - ledger.known.begin()) / unit * unit;
  if (common <= hit.tokens) return hit;
  kept->table.Truncate(common);
  if (common % kBlockTokens != 0 && kept->table.BlocksToReserve(1) > 0) {
    // Others can read the last block, so it would have to be copied; computing it again needs no
    // room.
    common -= common % kBlockTokens;
    kept->table.Truncate(common);
  }
  kept->ledger.computed = common;
  return {.blocks = {}, .is_session = true, .tokens = common};
}

// Whether waiting lets it find what another one is computing just now: one block more than it finds
// already. That block is compared first, so that who shares nothing costs little.
bool Scheduler::SharesWithARunningPrefill(const Sequence& sequence, int64_t hit_tokens) const {
  if (!limits_.prefix_cache) return false;
  const int64_t found = hit_tokens / kBlockTokens * kBlockTokens;
  const int64_t wanted = found + kBlockTokens;
  if (wanted > sequence.reusable_tokens()) return false;
  const TokenId* known = sequence.ledger.known.data();
  return std::ranges::any_of(running_, [&](const auto& other) {
    if (!other->is_prefill() || other->spec.salt != sequence.spec.salt) return false;
    if (wanted >= other->ledger.num_known()) return false;
    const TokenId* theirs = other->ledger.known.data();
    return std::equal(known + found, known + wanted, theirs + found) &&
           std::equal(known, known + found, theirs);
  });
}

Scheduler::Admission Scheduler::TryAdmit(Sequence& sequence) {
  const Hit hit = Look(sequence);
  if (SharesWithARunningPrefill(sequence, hit.tokens)) return Admission::kNotYet;
  const Request& ledger = sequence.ledger;
  if (ledger.num_known() - hit.tokens > limits_.long_prompt_tokens) {
    const auto num_long = std::ranges::count_if(running_, [&](const auto& other) {
      return other->ledger.num_pending() > limits_.long_prompt_tokens;
    });
    if (num_long >= limits_.max_long_prefills) return Admission::kNotYet;
  }
  if (!LeavesTimeForStreams(sequence)) return Admission::kNotYet;
  const uint64_t own = hit.is_session ? sequence.spec.session : 0;
  while (BlocksToAdmit(sequence, hit) > UnpromisedBlocks()) {
    // Whoever waits is worth more than what is kept for later.
    if (!sessions_.DropOldestBut(own)) return Admission::kNoRoom;
  }
  Start(waiting_.find(KeyOf(sequence)), hit);
  return Admission::kDone;
}

int64_t Scheduler::BlocksToAdmit(const Sequence& sequence, const Hit& hit) const {
  const auto owned = std::ranges::count_if(
      hit.blocks, [&](BlockId block) { return pool_->num_references(block) > 0; });
  const int64_t kept = hit.is_session ? NumBlocksFor(hit.tokens) : 0;
  const bool is_oldest = running_.empty() || sequence.order < running_.front()->order;
  if (is_oldest) return BlocksOfTheOldest(sequence, nullptr) - owned - kept;
  const Sequence& oldest = *running_.front();
  const int64_t more = BlocksOfTheOldest(oldest, &sequence) - oldest.promised_blocks;
  const int64_t calm = sequence.preemptions > 0 ? kCalmBlocks * std::ssize(running_) : 0;
  return PromptAndOneBlock(sequence) - owned - kept + std::max<int64_t>(more, 0) + calm;
}

// Whether steps can serve all prefills as often as they must be (S-2) in the time that one stream
// leaves them (S-1): more streams leave more, but may end before the prefills do.
bool Scheduler::LeavesTimeForStreams(const Sequence& sequence) const {
  const auto due = [&](const Sequence& other) {
    return std::min(other.ledger.num_pending(), kLeastChunk);
  };
  int64_t tokens = due(sequence);
  int64_t count = 1;
  int64_t longest = sequence.ledger.num_known();
  for (const auto& other : running_) {
    if (other->ledger.num_pending() == 0 || other->ledger.computed >= other->ledger.num_prompt) {
      continue;
    }
    ++count;
    tokens += due(*other);
    longest = std::max(longest, other->ledger.num_known());
  }
  if (count <= limits_.max_prefill_wait) return true;  // one in a step
  StepFeatures stream;
  stream.AddDecode(0);
  StepFeatures step = stream;
  step.AddPrefill((tokens + limits_.max_prefill_wait - 1) / limits_.max_prefill_wait, longest);
  return time_model_.Predict(step) <= GapSeconds(stream);
}

void Scheduler::Start(Queue::iterator waiting, const Hit& hit) {
  if (const Queue::iterator oldest = Oldest(); oldest != waiting) ++oldest->second->passes;
  std::unique_ptr<Sequence> sequence = std::move(waiting->second);
  waiting_.erase(waiting);
  waiting_tokens_ -= sequence->ledger.num_known();
  if (hit.is_session) {
    std::optional<KeptSequence> kept = sessions_.Take(sequence->spec.session);
    CHECK(kept.has_value());
    sequence->table = std::move(kept->table);
  } else {
    sequence->table = BlockTable(*pool_, limits_.max_context);
    sequence->table.Adopt(hit.blocks, hit.tokens);
    if (sequence->spec.session != 0) (void)sessions_.Take(sequence->spec.session);
  }
  sequence->promised_blocks = PromptAndOneBlock(*sequence);
  sequence->ledger.computed = hit.tokens;
  sequence->published_blocks = hit.is_session ? 0 : std::ssize(hit.blocks);
  sequence->waited = 0;
  sequence->slot = free_slots_.back();
  free_slots_.pop_back();
  if (!sequence->was_admitted) {
    sequence->was_admitted = true;
    sequence->hit_tokens = hit.tokens;
    ++counts_.prefix_queries;
    counts_.prefix_hit_tokens += static_cast<uint64_t>(hit.tokens);
  }
  ++counts_.admissions;
  const auto place = std::ranges::upper_bound(running_, sequence->order, {},
                                              [](const auto& other) { return other->order; });
  if (place == running_.begin() && !running_.empty()) {
    // The one that was the oldest gives back what only the oldest is promised.
    Sequence& before = *running_.front();
    const int64_t held = std::ssize(before.table.blocks());
    before.promised_blocks =
        std::min(before.promised_blocks, std::max(held, PromptAndOneBlock(before)));
  }
  running_.insert(place, std::move(sequence));
  Sequence& oldest = *running_.front();
  oldest.promised_blocks =
      std::max(oldest.promised_blocks, BlocksOfTheOldest(oldest, /*newcomer=*/nullptr));
}

}  // namespace baton
