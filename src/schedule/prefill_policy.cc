#include "schedule/prefill_policy.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace baton {
namespace {

// A step as far as it is chosen.
struct Chosen {
  StepFeatures features;
  int64_t rows = 0;            // prompt tokens it may still take
  double logit_seconds = 0.0;  // of logits of prompt rows
};

// The most tokens that the time allows.
int64_t TokensInTime(const StepTimeModel& model, const Chosen& chosen,
                     const PrefillCandidate& candidate, double seconds) {
  const int64_t most = std::min(candidate.pending, chosen.rows);
  if (std::isinf(seconds)) return most;
  return model.LargestChunk({.budget_seconds = seconds - chosen.logit_seconds,
                             .base = chosen.features,
                             .computed = candidate.computed,
                             .max_tokens = most,
                             .more_seconds_per_token = candidate.logit_seconds,
                             .granularity = 1});
}

// Ends the chunk on the grid, if it is not the end of the prompt: on the coarsest one that costs at
// most an eighth of it, or else on that of its unit.
int64_t OnGrid(const PrefillCandidate& candidate, int64_t tokens) {
  if (tokens >= candidate.pending) return candidate.pending;
  for (int64_t grid = std::max(kChunkGrid, candidate.unit); grid > 1; grid /= 2) {
    const int64_t cut = (candidate.computed + tokens) % grid;
    if (8 * cut <= tokens || grid == candidate.unit) return tokens - cut;
  }
  return tokens;
}

class Chooser {
 public:
  Chooser(const StepTimeModel& model, std::span<const PrefillCandidate> candidates,
          const PrefillBudget& budget, std::span<int64_t> chunks)
      : model_(model),
        candidates_(candidates),
        budget_(budget),
        chunks_(chunks),
        chosen_{.features = budget.decode, .rows = budget.rows} {}

  void Run() {
    std::ranges::fill(chunks_, 0);
    ServeThoseThatWaited();
    for (const bool is_long : {false, true}) {
      for (size_t i = 0; i < candidates_.size(); ++i) {
        if (candidates_[i].is_long == is_long && chunks_[i] == 0) Extend(i);
      }
    }
  }

 private:
  // Serves in turn, the longest waiting first, but not before it has to be: as soon as serving the
  // usual number from the next step on would let one wait too long. Then so many are served as
  // must be in each step from this one on; each gets the least, and then, the oldest first, what
  // there is.
  void ServeThoseThatWaited() {
    const auto count = static_cast<int64_t>(candidates_.size());
    const int64_t usual = (count + budget_.max_wait - 1) / budget_.max_wait;
    bool is_due = false;
    int64_t in_a_step = usual;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t steps_left =
          std::max(budget_.max_wait - candidates_[static_cast<size_t>(i)].waited, 1);
      const int64_t rank = RankOf(i);
      is_due = is_due || rank / usual + 1 >= steps_left;
      in_a_step = std::max(in_a_step, rank / steps_left + 1);
    }
    if (!is_due) return;
    const int64_t least = LeastChunk(budget_.rows, in_a_step * budget_.max_wait, budget_.max_wait);
    for (int64_t i = 0; i < count; ++i) {
      if (RankOf(i) >= in_a_step) continue;
      const auto index = static_cast<size_t>(i);
      const int64_t possible = std::min(candidates_[index].pending, chosen_.rows);
      const int64_t wanted = std::max(least, candidates_[index].unit);
      SetChunk(index, OnGrid(candidates_[index], std::min(wanted, possible)));
    }
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (chunks_[i] > 0) Extend(i);
    }
  }

  // How many have waited longer, or as long and are older.
  int64_t RankOf(int64_t index) const {
    int64_t rank = 0;
    const int32_t waited = candidates_[static_cast<size_t>(index)].waited;
    for (int64_t i = 0; i < static_cast<int64_t>(candidates_.size()); ++i) {
      const int32_t other = candidates_[static_cast<size_t>(i)].waited;
      rank += other > waited || (other == waited && i < index) ? 1 : 0;
    }
    return rank;
  }

  // Gives a candidate as much as time and rows allow, but no less than it has.
  void Extend(size_t index) {
    const PrefillCandidate& candidate = candidates_[index];
    const int64_t before = chunks_[index];
    SetChunk(index, 0);
    const int64_t possible = std::min(candidate.pending, chosen_.rows);
    int64_t tokens = TokensInTime(model_, chosen_, candidate, budget_.seconds);
    if (tokens < std::min(kLeastChunk, possible)) tokens = 0;
    SetChunk(index, std::max(before, OnGrid(candidate, tokens)));
  }

  void SetChunk(size_t index, int64_t tokens) {
    const PrefillCandidate& candidate = candidates_[index];
    StepFeatures without;
    without.AddPrefill(chunks_[index], candidate.computed);
    // Whole numbers: nothing is lost by taking away what was added.
    chosen_.features.prefill_tokens -= without.prefill_tokens;
    chosen_.features.prefill_context -= without.prefill_context;
    chosen_.rows += chunks_[index] - tokens;
    chosen_.logit_seconds += static_cast<double>(tokens - chunks_[index]) * candidate.logit_seconds;
    if (tokens > 0) chosen_.features.AddPrefill(tokens, candidate.computed);
    chunks_[index] = tokens;
  }

  const StepTimeModel& model_;
  std::span<const PrefillCandidate> candidates_;
  const PrefillBudget& budget_;
  std::span<int64_t> chunks_;
  Chosen chosen_;
};

}  // namespace

int64_t LeastChunk(int64_t rows, int64_t num_candidates, int32_t max_wait) {
  const int64_t per_step = std::max<int64_t>(1, (num_candidates + max_wait - 1) / max_wait);
  return std::clamp<int64_t>(rows / per_step, 1, kLeastChunk);
}

void ChoosePrefillChunks(const StepTimeModel& model, std::span<const PrefillCandidate> candidates,
                         const PrefillBudget& budget, std::span<int64_t> chunks) {
  CHECK_EQ(candidates.size(), chunks.size());
  CHECK_GE(budget.max_wait, 1);
  Chooser(model, candidates, budget, chunks).Run();
}

}  // namespace baton
