// How long a step will take, from what it computes: the one fit behind chunk sizes, admission,
// planning and simulation.
//
//   t = a + b·prefill_tokens + c·Σ(prefill_tokens × context) + d·decode_rows + e·Σ decode_context
//
// with no coefficient below zero, fitted while running by recursive least squares:
//  - Errors count relative to the time, as steps take from milliseconds to many seconds.
//  - Old observations are forgotten, but only about the features that new ones have: hours of
//  decode
//    leave what is known of prefill as it was.
//  - A residual far beyond the usual ones counts as one just beyond them (Huber): a step that the
//    host delayed moves the fit little. If the machine stays slower, the usual residual grows, and
//    the fit follows; if predictions have become useless, what is known loses its weight at once.
//  - The unconstrained fit is kept, the constrained one is computed from it: the nearest point, in
//    the metric of the information, without negative coefficients. So limits leave no bias behind.
#pragma once

#include <array>
#include <cstdint>

#include "base/result.h"

namespace baton {

// What of a step decides its time. Plain data.
struct StepFeatures {
  double prefill_tokens = 0;
  double prefill_context = 0;  // for each token of a chunk the positions it attends to, summed
  double decode_rows = 0;
  double decode_context = 0;  // the same for decode rows

  // Adds a chunk of num_tokens tokens behind `computed` others. Requires: both >= 0.
  void AddPrefill(int64_t num_tokens, int64_t computed);
  // Adds a row that attends to `context` positions. Requires: context >= 0.
  void AddDecode(int64_t context);

  friend bool operator==(const StepFeatures&, const StepFeatures&) = default;
};

// Seconds. The model's a to e.
struct StepTimeCoefficients {
  double per_step = 0;
  double per_prefill_token = 0;
  double per_prefill_context = 0;
  double per_decode_row = 0;
  double per_decode_context = 0;
};

// A size of chunk that is looked for.
struct ChunkQuery {
  double budget_seconds = 0;  // for the whole step
  StepFeatures base;          // what the step computes besides
  int64_t computed = 0;       // tokens before the chunk
  int64_t max_tokens = 0;     // what is left of the prompt
  // What each token of the chunk takes beyond what the model predicts.
  double more_seconds_per_token = 0;
  int64_t granularity = 0;  // chunks end at positions that are multiples of it, or with the prompt
};

// The fit. Copyable plain numbers. Threads: one at a time. Memory: allocates nothing.
class StepTimeModel {
 public:
  static constexpr int kNumFeatures = 5;
  // Times outside of these are no steps.
  static constexpr double kMinSeconds = 1e-7;
  static constexpr double kMaxSeconds = 1e5;
  // Larger features are no steps either, nor are parts of a token.
  static constexpr double kMaxFeature = 1e15;

  // All of a fit in plain numbers, to be kept from one run to the next.
  struct State {
    std::array<double, kNumFeatures> unconstrained = {};
    std::array<std::array<double, kNumFeatures>, kNumFeatures> information = {};
    std::array<double, kNumFeatures> usual_information = {};  // of one observation; 0: never seen
    double usual_residual = 0;                                // relative
    double num_observed = 0;

    friend bool operator==(const State&, const State&) = default;
  };

  // Knows nothing: predicts 0.
  StepTimeModel();

  // Goes on from a state. Errors: invalid (it is not one that a fit can have).
  static Result<StepTimeModel> FromState(const State& state);
  const State& state() const { return state_; }

  // Learns from a step that took `seconds`. Returns false, and learns nothing, if a number is not
  // one that a step can have (see the limits above).
  bool Observe(const StepFeatures& features, double seconds);

  // The time that a step will take: finite, never negative, and no less for any larger feature.
  // Units: seconds. Features that a step cannot have count as the nearest that it can.
  double Predict(const StepFeatures& features) const;

  // The largest number of tokens that a chunk may have for the step to stay within its budget; 0 if
  // none has. Grows with the budget. A chunk to learn from, the smallest, while no prefill has been
  // observed.
  // Requires: computed >= 0, max_tokens >= 0, granularity > 0.
  int64_t LargestChunk(const ChunkQuery& query) const;

  StepTimeCoefficients coefficients() const;
  int64_t num_observed() const { return static_cast<int64_t>(state_.num_observed); }
  // Recent mean of the difference between time and prediction, outliers clipped, as a part of the
  // time.
  double usual_residual() const { return state_.usual_residual; }

 private:
  using Vector = std::array<double, kNumFeatures>;

  bool Learn(const StepFeatures& features, double seconds);
  bool Fits(const ChunkQuery& query, int64_t num_tokens) const;

  State state_;
  Vector constrained_ = {};  // per scaled feature
};

}  // namespace baton
