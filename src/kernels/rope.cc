#include "kernels/rope.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/check.h"
#include "base/portable_math.h"
#include "kernels/row_kernel_ops.h"

namespace baton {
namespace {

constexpr double kTwoPi = 6.283185307179586;
// With the largest position it stays below kMaxAngle of the sine.
constexpr double kMaxFrequency = 32.0;
static_assert(kMaxFrequency * static_cast<double>(RopeTable::kMaxPosition) < kMaxAngle);

bool IsPositive(double x) {
  return x > 0.0 && std::isfinite(x);
}

Result<> CheckParams(const RopeParams& p) {
  if (p.rotary_dim <= 0 || p.rotary_dim % 2 != 0 || p.rotary_dim > p.head_dim ||
      p.rotary_dim > RopeTable::kMaxRotaryDim) {
    return Fail(ErrorCode::kInvalid,
                "rope: rotary dimension must be even and at most the head's: " +
                    std::to_string(p.rotary_dim) + " of " + std::to_string(p.head_dim));
  }
  if (!(p.base > 1.0) || !std::isfinite(p.base)) {
    return Fail(ErrorCode::kInvalid, "rope: base must be above 1: " + std::to_string(p.base));
  }
  if (!IsPositive(p.attention_factor)) {
    return Fail(ErrorCode::kInvalid,
                "rope: bad attention factor: " + std::to_string(p.attention_factor));
  }
  if (p.scaling != RopeScaling::kNone && !IsPositive(p.factor)) {
    return Fail(ErrorCode::kInvalid, "rope: bad scaling factor: " + std::to_string(p.factor));
  }
  const bool by_waves = p.scaling == RopeScaling::kLlama3 || p.scaling == RopeScaling::kYarn;
  if (by_waves && !IsPositive(p.original_context)) {
    return Fail(ErrorCode::kInvalid,
                "rope: bad original context: " + std::to_string(p.original_context));
  }
  if (p.scaling == RopeScaling::kLlama3 &&
      !(IsPositive(p.low_frequency_factor) && IsPositive(p.high_frequency_factor) &&
        p.low_frequency_factor < p.high_frequency_factor)) {
    return Fail(ErrorCode::kInvalid, "rope: bad frequency factors: low " +
                                         std::to_string(p.low_frequency_factor) + ", high " +
                                         std::to_string(p.high_frequency_factor));
  }
  if (p.scaling == RopeScaling::kYarn && !(IsPositive(p.beta_fast) && IsPositive(p.beta_slow))) {
    return Fail(ErrorCode::kInvalid, "rope: bad yarn turns: fast " + std::to_string(p.beta_fast) +
                                         ", slow " + std::to_string(p.beta_slow));
  }
  const size_t num_pairs = static_cast<size_t>(p.rotary_dim) / 2;
  if (!p.frequency_factors.empty() && p.frequency_factors.size() != num_pairs) {
    return Fail(ErrorCode::kInvalid, "rope: " + std::to_string(p.frequency_factors.size()) +
                                         " frequency factors for " + std::to_string(num_pairs) +
                                         " pairs");
  }
  return {};
}

// Waves shorter than original / high keep their frequency, longer than original / low have it
// divided, and between them the two mix in proportion to the turns.
double ScaleLlama3(const RopeParams& p, double frequency) {
  const double turns = p.original_context * frequency / kTwoPi;
  if (turns > p.high_frequency_factor) return frequency;
  if (turns < p.low_frequency_factor) return frequency / p.factor;
  const double smooth =
      (turns - p.low_frequency_factor) / (p.high_frequency_factor - p.low_frequency_factor);
  return (1.0 - smooth) * (frequency / p.factor) + smooth * frequency;
}

// The pair (as a real number) that makes `turns` turns within the original context.
double PairOfTurns(const RopeParams& p, double turns) {
  return p.rotary_dim * Log(p.original_context / (turns * kTwoPi)) / (2.0 * Log(p.base));
}

double ScaleYarn(const RopeParams& p, int pair, double frequency) {
  const double last = p.rotary_dim - 1.0;
  const double low = std::clamp(std::floor(PairOfTurns(p, p.beta_fast)), 0.0, last);
  double high = std::clamp(std::ceil(PairOfTurns(p, p.beta_slow)), 0.0, last);
  if (high <= low) high = low + 0.001;
  const double ramp = std::clamp((pair - low) / (high - low), 0.0, 1.0);
  return (frequency / p.factor) * ramp + frequency * (1.0 - ramp);
}

double ScaleFrequency(const RopeParams& p, int pair, double frequency) {
  switch (p.scaling) {
    case RopeScaling::kNone:
      return frequency;
    case RopeScaling::kLinear:
      return frequency / p.factor;
    case RopeScaling::kLlama3:
      return ScaleLlama3(p, frequency);
    case RopeScaling::kYarn:
      return ScaleYarn(p, pair, frequency);
  }
  return frequency;
}

}  // namespace

double YarnAttentionFactor(double factor) {
  return factor > 1.0 ? 0.1 * Log(factor) + 1.0 : 1.0;
}

Result<RopeTable> RopeTable::Make(const RopeParams& params) {
  if (Result<> checked = CheckParams(params); !checked) return Forward(checked);
  RopeTable table;
  table.head_dim_ = params.head_dim;
  table.rotary_dim_ = params.rotary_dim;
  table.layout_ = params.layout;
  table.attention_factor_ = params.attention_factor;
  for (int pair = 0; pair < params.rotary_dim / 2; ++pair) {
    const double plain = Pow(params.base, -2.0 * pair / params.rotary_dim);
    double frequency = ScaleFrequency(params, pair, plain);
    if (!params.frequency_factors.empty()) {
      frequency /= static_cast<double>(params.frequency_factors[static_cast<size_t>(pair)]);
    }
    if (!(frequency >= 0.0 && frequency <= kMaxFrequency)) {
      return Fail(ErrorCode::kInvalid, "rope: bad frequency of pair " + std::to_string(pair) +
                                           ": " + std::to_string(frequency));
    }
    table.frequencies_.push_back(frequency);
  }
  return table;
}

void RopeTable::ComputeRow(int64_t position, float* cos_sin) const {
  CHECK(position >= 0 && position < kMaxPosition);
  const int half = rotary_dim_ / 2;
  for (int pair = 0; pair < half; ++pair) {
    const double angle = static_cast<double>(position) * frequencies_[static_cast<size_t>(pair)];
    const float cosine = static_cast<float>(Cos(angle) * attention_factor_);
    const float sine = static_cast<float>(Sin(angle) * attention_factor_);
    const bool halves = layout_ == RopeLayout::kHalves;
    const int first = halves ? pair : 2 * pair;
    const int second = halves ? pair + half : 2 * pair + 1;
    cos_sin[first] = cosine;
    cos_sin[second] = cosine;
    cos_sin[rotary_dim_ + first] = -sine;
    cos_sin[rotary_dim_ + second] = sine;
  }
}

void ComputeRopeRows(const KernelContext& context, const RopeRowsArgs& args) {
  CHECK_EQ(args.cos_sin.rows(), static_cast<int64_t>(args.positions.size()));
  CHECK_EQ(args.cos_sin.cols(), args.table.RowFloats());
  context.pool.ParallelFor(args.cos_sin.rows(), [&](int64_t row, int) {
    args.table.ComputeRow(args.positions[static_cast<size_t>(row)], args.cos_sin.row(row));
  });
}

void ApplyRope(const KernelContext& context, const ApplyRopeArgs& args) {
  const RopeTable& table = args.table;
  const View2<float> x = args.x;
  CHECK_EQ(args.cos_sin.rows(), x.rows());
  CHECK_EQ(args.cos_sin.cols(), table.RowFloats());
  CHECK_EQ(x.cols() % table.head_dim(), 0);
  const RowKernelOps& ops = *context.table.rows;
  const auto rotate = table.layout() == RopeLayout::kHalves ? ops.rotate_halves : ops.rotate_pairs;
  // Some ten microseconds of work per task.
  constexpr int64_t kTaskElements = 16384;
  const int64_t rows_per_task =
      std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, x.cols()));
  const int64_t num_tasks = (x.rows() + rows_per_task - 1) / rows_per_task;
  context.pool.ParallelFor(num_tasks, [&](int64_t task, int) {
    const int64_t end = std::min(x.rows(), (task + 1) * rows_per_task);
    for (int64_t row = task * rows_per_task; row < end; ++row) {
      for (int64_t first = 0; first < x.cols(); first += table.head_dim()) {
        rotate(args.cos_sin.row(row), table.rotary_dim(), x.row(row) + first);
      }
    }
  });
}

}  // namespace baton
