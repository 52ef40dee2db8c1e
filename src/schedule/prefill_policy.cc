#include "schedule/prefill_policy.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace baton {
namespace {

// A step as far as it is chosen.
struct Chosen {
  StepFeatures features;
  int64_t rows = 0;  // prompt tokens it may still take
};

StepFeatures With(const StepFeatures& features, const PrefillCandidate& candidate, int64_t tokens) {
  StepFeatures with = features;
  with.AddPrefill(tokens, candidate.computed);
  return with;
}

// The most tokens that the time allows.
int64_t TokensInTime(const StepTimeModel& model, const Chosen& chosen,
                     const PrefillCandidate& candidate, double seconds) {
  const int64_t most = std::min(candidate.pending, chosen.rows);
  if (std::isinf(seconds)) return most;
  return model.LargestChunk({.budget_seconds = seconds,
                             .base = chosen.features,
                             .computed = candidate.computed,
                             .max_tokens = most,
                             .granularity = kLeastChunk});
}

// Ends the chunk on the grid, if it is not the end of the prompt: on the coarse one, if that leaves
// half of it, or else on a finer one.
int64_t OnGrid(const PrefillCandidate& candidate, int64_t tokens) {
  if (tokens >= candidate.pending) return candidate.pending;
  for (int64_t grid = kChunkGrid; grid >= kLeastChunk; grid /= 2) {
    const int64_t end = (candidate.computed + tokens) / grid * grid;
    if (2 * (end - candidate.computed) > tokens) return end - candidate.computed;
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
        if (candidates_[i].is_long == is_long && chunks_[i] == 0) Take(i, /*least=*/0);
      }
    }
  }

 private:
  // If `per_step` of them were served in each step from now on, would one wait too long? Then so
  // many are served now.
  void ServeThoseThatWaited() {
    const auto count = static_cast<int64_t>(candidates_.size());
    const int64_t per_step = (count + budget_.max_wait - 1) / budget_.max_wait;
    bool is_due = false;
    for (int64_t i = 0; i < count; ++i) {
      const int32_t waited = candidates_[static_cast<size_t>(i)].waited;
      is_due = is_due || waited + RankOf(i) / per_step >= budget_.max_wait - 1;
    }
    for (int64_t i = 0; is_due && i < count; ++i) {
      if (RankOf(i) < per_step) Take(static_cast<size_t>(i), kLeastChunk);
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

  void Take(size_t index, int64_t least) {
    const PrefillCandidate& candidate = candidates_[index];
    const int64_t possible = std::min(candidate.pending, chosen_.rows);
    int64_t tokens = TokensInTime(model_, chosen_, candidate, budget_.seconds);
    if (tokens < std::min(kLeastChunk, possible)) tokens = std::min(least, possible);
    tokens = OnGrid(candidate, tokens);
    if (tokens == 0) return;
    chunks_[index] = tokens;
    chosen_.rows -= tokens;
    chosen_.features = With(chosen_.features, candidate, tokens);
  }

  const StepTimeModel& model_;
  std::span<const PrefillCandidate> candidates_;
  const PrefillBudget& budget_;
  std::span<int64_t> chunks_;
  Chosen chosen_;
};

}  // namespace

void ChoosePrefillChunks(const StepTimeModel& model, std::span<const PrefillCandidate> candidates,
                         const PrefillBudget& budget, std::span<int64_t> chunks) {
  CHECK_EQ(candidates.size(), chunks.size());
  CHECK_GE(budget.max_wait, 1);
  Chooser(model, candidates, budget, chunks).Run();
}

}  // namespace baton
