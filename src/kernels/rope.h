// Rotary position embedding: pairs of components of q and k turned by position * frequency.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/kernel_context.h"
#include "tensor/view.h"

namespace baton {

// Which components form pair i of rotary_dim / 2.
enum class RopeLayout {
  kInterleaved,  // (2i, 2i + 1)
  kHalves,       // (i, i + rotary_dim / 2)
};

enum class RopeScaling {
  kNone,
  kLinear,  // frequency / factor
  kLlama3,  // long waves divided by factor, short ones kept, a ramp between
  kYarn,    // the same by number of turns within the original context, and an attention factor
};

// The frequency of pair i is base^(-2i / rotary_dim) before scaling.
struct RopeParams {
  int head_dim = 0;
  int rotary_dim = 0;  // the first components of a head; the others stay as they are
  double base = 10000.0;
  RopeLayout layout = RopeLayout::kHalves;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;                // linear, llama3, yarn
  double original_context = 0.0;      // llama3, yarn: tokens
  double low_frequency_factor = 1.0;  // llama3
  double high_frequency_factor = 4.0;
  double beta_fast = 32.0;  // yarn: turns from which a frequency is kept
  double beta_slow = 1.0;   // yarn: turns below which it is divided by factor
  // Multiplies cos and sin. For yarn models YarnAttentionFactor(factor), unless the file says so.
  double attention_factor = 1.0;
  // [rotary_dim / 2] or empty: frequency i is divided by entry i, after the scaling above. (The
  // tensor rope_freqs of GGUF files, which stands for llama3 scaling.)
  std::span<const float> frequency_factors = {};
};

// 0.1 ln(factor) + 1 for factor > 1, else 1.
double YarnAttentionFactor(double factor);

// The frequencies of one kind of layer. Immutable after Make.
class RopeTable {
 public:
  static constexpr int64_t kMaxPosition = int64_t{1} << 24;
  static constexpr int kMaxRotaryDim = 4096;

  // Source: RoFormer (arXiv 2104.09864), YaRN (arXiv 2309.00071), Llama 3.1's rope_scaling.
  // Errors: invalid if a parameter is out of its range.
  static Result<RopeTable> Make(const RopeParams& params);

  int head_dim() const { return head_dim_; }
  int rotary_dim() const { return rotary_dim_; }
  RopeLayout layout() const { return layout_; }
  // Floats of one row of cosines and sines: 2 * rotary_dim.
  int64_t RowFloats() const { return 2 * int64_t{rotary_dim_}; }
  // Radians per position of each pair: [rotary_dim / 2].
  std::span<const double> frequencies() const { return frequencies_; }

  // The cosines and sines of one position, ready for ApplyRope: [2, rotary_dim] f32. Entry j of the
  // first half is the factor of component j, entry j of the second that of its partner.
  // A function of the position alone: angle, cosine and sine in double, rounded once.
  // Requires: 0 <= position < kMaxPosition.
  void ComputeRow(int64_t position, float* cos_sin) const;

 private:
  RopeTable() = default;
  int head_dim_ = 0;
  int rotary_dim_ = 0;
  RopeLayout layout_ = RopeLayout::kHalves;
  double attention_factor_ = 1.0;
  std::vector<double> frequencies_;
};

struct RopeRowsArgs {
  const RopeTable& table;
  std::span<const int64_t> positions;
  View2<float> cos_sin;  // [positions.size(), table.RowFloats()]
};

// Fills row r of cos_sin for positions[r]; once per step, for all layers of one table.
// Threads: shares the rows out over the context's pool.
void ComputeRopeRows(const KernelContext& context, const RopeRowsArgs& args);

struct ApplyRopeArgs {
  const RopeTable& table;
  View2<const float> cos_sin;  // as from ComputeRopeRows, a row for each of x
  View2<float> x;              // [num_rows, num_heads * head_dim], changed in place
};

// Turns every head of every row of x.
// Threads: shares the rows out over the context's pool.
void ApplyRope(const KernelContext& context, const ApplyRopeArgs& args);

}  // namespace baton
