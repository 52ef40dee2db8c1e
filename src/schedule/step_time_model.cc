#include "schedule/step_time_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace baton {
namespace {

constexpr int kCount = StepTimeModel::kNumFeatures;
using Vector = std::array<double, kCount>;
using Matrix = std::array<Vector, kCount>;
// A set of features: bit i for feature i.
constexpr uint32_t kAllFeatures = (1u << kCount) - 1;

// What one unit of a scaled feature is: about the size of a busy step, so that all coefficients are
// of one order.
constexpr Vector kUnits = {1.0, 256.0, 256.0 * 2048.0, 8.0, 8.0 * 2048.0};

// Of what is known about a feature one observation takes this part away: a memory of 200 steps.
constexpr double kForgotten = 0.005;
// Where no observation has told features apart for long, what was known before weighs as much as
// this many observations.
constexpr double kMemory = 1.0;
// No observation, however far from the usual, makes more known of a feature than so many usual
// ones.
constexpr double kMost = 1e8;
// How firmly a coefficient that nothing is known about is held at zero, in observations. The
// constant most: what it wrongly takes of the time, larger chunks would seem to be spared.
constexpr Vector kPrior = {1e-2, 1e-4, 1e-4, 1e-4, 1e-4};
// Residuals beyond so many usual ones count as this much, and no more than kLargest of them are
// averaged into the usual one.
constexpr double kHuber = 2.0;
constexpr double kLargest = 4.0;
constexpr double kResidualMemory = 0.05;
constexpr double kFirstResidual = 0.2;
constexpr double kLeastResidual = 1e-3;
// Predictions that are usually wrong by more than this are of no use: then what is known counts
// only this part of what it did, so that it soon gives way.
constexpr double kUseless = 0.5;
constexpr double kDoubt = 0.01;
// The weight of an observation follows the prediction, so that it does not depend on its noise, but
// not further than this factor from what was observed.
constexpr double kTrusted = 2.0;
// While fewer steps have been observed the predictions are not used for weights.
constexpr double kWarmUp = 12;
// A pivot below this part of the diagonal is rounding.
constexpr double kLeastPivot = 1e-12;
// Seconds per unit; keeps predictions finite.
constexpr double kMostPerUnit = 1e9;

Vector Scaled(const StepFeatures& features) {
  return {1.0, features.prefill_tokens / kUnits[1], features.prefill_context / kUnits[2],
          features.decode_rows / kUnits[3], features.decode_context / kUnits[4]};
}

double Dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (int i = 0; i < kCount; ++i) sum += a[i] * b[i];
  return sum;
}

bool IsFinite(const Vector& v) {
  return std::ranges::all_of(v, [](double x) { return std::isfinite(x); });
}

// Solves A x = b for the variables in the set, the others being 0, by Cholesky on A scaled to ones
// on the diagonal. Returns false if A is not positive definite there.
bool SolveFor(uint32_t set, const Matrix& a, const Vector& b, Vector& x) {
  Matrix factor = {};
  Vector y = {};
  x = {};
  const auto in = [set](int i) { return (set >> i & 1) != 0; };
  for (int i = 0; i < kCount; ++i) {
    if (!in(i)) continue;
    if (!(a[i][i] > 0)) return false;
    y[i] = b[i] / std::sqrt(a[i][i]);
    for (int j = 0; j <= i; ++j) {
      if (!in(j)) continue;
      double sum = a[i][j] / std::sqrt(a[i][i] * a[j][j]);
      for (int k = 0; k < j; ++k) sum -= factor[i][k] * factor[j][k];
      if (j < i) {
        factor[i][j] = sum / factor[j][j];
        y[i] -= factor[i][j] * y[j];
        continue;
      }
      if (!(sum > kLeastPivot)) return false;
      factor[i][i] = std::sqrt(sum);
      y[i] /= factor[i][i];
    }
  }
  for (int i = kCount - 1; i >= 0; --i) {
    if (!in(i)) continue;
    for (int k = i + 1; k < kCount; ++k) y[i] -= in(k) ? factor[k][i] * x[k] : 0;
    x[i] = y[i] / factor[i][i];
  }
  for (int i = 0; i < kCount; ++i) {
    if (in(i)) x[i] /= std::sqrt(a[i][i]);
  }
  return IsFinite(x);
}

// The point without negative components that is nearest to `free` in the metric A: the best of the
// solutions for all sets of components that may differ from zero. Returns false if it finds none, A
// being singular.
bool NearestWithoutNegatives(const Matrix& a, const Vector& free, Vector& nearest) {
  if (std::ranges::all_of(free, [](double v) { return v >= 0 && v <= kMostPerUnit; })) {
    nearest = free;
    return true;
  }
  Vector b = {};
  for (int i = 0; i < kCount; ++i) b[i] = Dot(a[i], free);
  double best = std::numeric_limits<double>::infinity();
  for (uint32_t set = 0; set <= kAllFeatures; ++set) {
    Vector x = {};
    if (!SolveFor(set, a, b, x)) continue;
    if (std::ranges::any_of(x, [](double v) { return v < 0 || v > kMostPerUnit; })) continue;
    // Twice the distance's part that depends on x, by A x = b on the set.
    const double distance = -Dot(b, x);
    if (!(distance < best)) continue;
    best = distance;
    nearest = x;
  }
  return std::isfinite(best);
}

bool IsStep(const StepFeatures& features, double seconds) {
  const auto possible = [](double x) {
    return x == 0 || (x >= 1 && x <= StepTimeModel::kMaxFeature);
  };
  return possible(features.prefill_tokens) && possible(features.prefill_context) &&
         possible(features.decode_rows) && possible(features.decode_context) &&
         seconds >= StepTimeModel::kMinSeconds && seconds <= StepTimeModel::kMaxSeconds;
}

// Forgets a part of what is known about the features that occur, in such a way that the estimate
// stays where it is.
void Forget(const Vector& x, StepTimeModel::State& state) {
  Vector kept = {};
  for (int i = 0; i < kCount; ++i) {
    const double most = kMost * state.usual_information[i];
    kept[i] = x[i] > 0 ? std::sqrt(1 - kForgotten) : 1;
    if (most > 0) kept[i] = std::min(kept[i], std::sqrt(most / state.information[i][i]));
  }
  for (int i = 0; i < kCount; ++i) {
    for (int j = 0; j < kCount; ++j) state.information[i][j] *= kept[i] * kept[j];
    if (x[i] > 0) state.information[i][i] += kForgotten * kMemory * state.usual_information[i];
  }
}

// Adds what one observation tells. Returns the change of A x by a relative error of one.
Vector AddInformation(const Vector& x, double scale, double weight, StepTimeModel::State& state) {
  Vector direction = {};
  for (int i = 0; i < kCount; ++i) {
    if (!(x[i] > 0)) continue;
    const double information = x[i] * x[i] / (scale * scale);
    double& usual = state.usual_information[i];
    if (usual == 0) {
      usual = information;
      state.information[i][i] = kPrior[i] * information;
    }
    // A geometric mean: orders of magnitude pass as soon as they came.
    usual *= std::pow(information / usual, kForgotten);
    for (int j = 0; j < kCount; ++j) {
      // In this order: equal bits on both sides of the diagonal.
      state.information[i][j] += weight * (x[i] * x[j]) / (scale * scale);
    }
    direction[i] = weight * (x[i] / scale);
  }
  return direction;
}

void NoteResidual(double residual, StepTimeModel::State& state) {
  double& usual = state.usual_residual;
  usual += kResidualMemory * (std::min(residual, kLargest * usual) - usual);
  usual = std::max(usual, kLeastResidual);
  if (usual < kUseless) return;
  usual = kFirstResidual;
  for (int i = 0; i < kCount; ++i) {
    state.usual_information[i] *= kDoubt;
    for (double& information : state.information[i]) information *= kDoubt;
  }
}

}  // namespace

void StepFeatures::AddPrefill(int64_t num_tokens, int64_t computed) {
  const auto n = static_cast<double>(num_tokens);
  prefill_tokens += n;
  prefill_context += n * static_cast<double>(computed) + n * (n + 1) / 2;
}

void StepFeatures::AddDecode(int64_t context) {
  decode_rows += 1;
  decode_context += static_cast<double>(context);
}

StepTimeModel::StepTimeModel() {
  for (int i = 0; i < kCount; ++i) state_.information[i][i] = 1;  // until the feature is seen
  state_.usual_residual = kFirstResidual;
}

Result<StepTimeModel> StepTimeModel::FromState(const State& state) {
  StepTimeModel model;
  model.state_ = state;
  bool good = IsFinite(state.unconstrained) && IsFinite(state.usual_information) &&
              state.usual_residual >= kLeastResidual && state.usual_residual <= kUseless &&
              state.num_observed >= 0 && state.num_observed < 1e15;
  for (int i = 0; i < kCount && good; ++i) {
    good = IsFinite(state.information[i]) && state.usual_information[i] >= 0;
    for (int j = 0; j < i; ++j) good = good && state.information[i][j] == state.information[j][i];
  }
  Vector x = {};
  good = good && SolveFor(kAllFeatures, state.information, {}, x);
  if (good && NearestWithoutNegatives(state.information, state.unconstrained, model.constrained_)) {
    return model;
  }
  return Fail(ErrorCode::kInvalid, "step times: these numbers are not a fit; measure anew");
}

bool StepTimeModel::Observe(const StepFeatures& features, double seconds) {
  if (!IsStep(features, seconds)) return false;
  if (Learn(features, seconds)) return true;
  // Numbers so far apart that no arithmetic holds them together.
  *this = StepTimeModel();
  return Learn(features, seconds);
}

// Leaves all as it was, and returns false, if the equations cannot be solved.
bool StepTimeModel::Learn(const StepFeatures& features, double seconds) {
  const Vector x = Scaled(features);
  State next = state_;
  const double predicted = Predict(features);
  const bool warm = next.num_observed >= kWarmUp;
  const double scale =
      warm ? std::clamp(predicted, seconds / kTrusted, seconds * kTrusted) : seconds;
  const double residual = std::abs(seconds - predicted) / scale;
  const double limit = kHuber * next.usual_residual;
  const double weight = warm && residual > limit ? limit / residual : 1.0;

  Forget(x, next);
  const Vector direction = AddInformation(x, scale, weight, next);
  Vector gain = {};
  if (!SolveFor(kAllFeatures, next.information, direction, gain)) return false;
  const double error = (seconds - Dot(x, next.unconstrained)) / scale;
  for (int i = 0; i < kCount; ++i) next.unconstrained[i] += gain[i] * error;
  Vector constrained = {};
  if (!IsFinite(next.unconstrained) ||
      !NearestWithoutNegatives(next.information, next.unconstrained, constrained)) {
    return false;
  }
  if (warm) NoteResidual(residual, next);
  next.num_observed += 1;
  state_ = next;
  constrained_ = constrained;
  return true;
}

double StepTimeModel::Predict(const StepFeatures& features) const {
  Vector x = Scaled(features);
  for (int i = 1; i < kCount; ++i) {
    // Also takes a NaN for 0.
    x[i] = x[i] > 0 ? std::min(x[i], kMaxFeature) : 0;
  }
  return Dot(x, constrained_);
}

int64_t StepTimeModel::LargestChunk(const ChunkQuery& query) const {
  CHECK_GE(query.computed, 0);
  CHECK_GE(query.max_tokens, 0);
  CHECK_GT(query.granularity, 0);
  const int64_t first = query.granularity - query.computed % query.granularity;
  if (query.max_tokens <= first || state_.usual_information[1] == 0) {
    const int64_t smallest = std::min(first, query.max_tokens);
    return Fits(query, smallest) || state_.usual_information[1] == 0 ? smallest : 0;
  }
  // Chunk number i > 0 ends at the ith multiple of the granularity, the last one with the prompt.
  const auto size = [&](int64_t i) {
    return i == 0 ? 0 : std::min(first + (i - 1) * query.granularity, query.max_tokens);
  };
  int64_t fitting = 0;
  int64_t too_large = (query.max_tokens - first + query.granularity - 1) / query.granularity + 2;
  while (too_large - fitting > 1) {
    const int64_t middle = fitting + (too_large - fitting) / 2;
    (Fits(query, size(middle)) ? fitting : too_large) = middle;
  }
  return size(fitting);
}

bool StepTimeModel::Fits(const ChunkQuery& query, int64_t num_tokens) const {
  StepFeatures features = query.base;
  features.AddPrefill(num_tokens, query.computed);
  const double more = static_cast<double>(num_tokens) * query.more_seconds_per_token;
  return Predict(features) + more <= query.budget_seconds;
}

StepTimeCoefficients StepTimeModel::coefficients() const {
  return {.per_step = constrained_[0],
          .per_prefill_token = constrained_[1] / kUnits[1],
          .per_prefill_context = constrained_[2] / kUnits[2],
          .per_decode_row = constrained_[3] / kUnits[3],
          .per_decode_context = constrained_[4] / kUnits[4]};
}

}  // namespace baton
