// Which heads look back for the token that followed the present one before: induction heads, which
// copy what a text repeats. A sparse prefill that loses what they look at loses the copy.
//
// The model reads random tokens twice over. A row of the second copy has one right place to look
// at: the token after its own token's first occurrence. A head's score is the mass that its softmax
// puts there, mean over rows; that of a KV head the largest of its query heads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/loaded_model.h"
#include "kernels/sparse_policy.h"
#include "model/decoder.h"

namespace baton {

// Rows whose mass on one key each is wanted, all layers alike.
struct MassQuestion {
  std::span<const int64_t> rows;  // positions of queries, ascending
  std::span<const int64_t> keys;  // of each row the key: at most its position
};

// Computes the mass from queries and keys as a step computes them: attach it with
// StepForward::SetObserver to a step that reads a sequence from its start. Sums in double, keys
// rounded to binary16 as the cache has them.
// Threads: spreads over the pool, between the step's own loops.
class AttentionMassProbe final : public StepObserver {
 public:
  // Requires: all outlive the probe.
  AttentionMassProbe(const ModelSpec& spec, ThreadPool& pool, const MassQuestion& question);

  void OnValues(std::string_view name, int layer, View2<const float> values) override;

  // The mean over rows of the mass on their keys. Shapes: [num_layers, num_heads].
  View2<const double> means() const;

 private:
  void Measure(int layer, View2<const float> keys);

  const ModelSpec& spec_;
  ThreadPool& pool_;
  const MassQuestion question_;
  View2<const float> queries_;            // of the layer at work
  std::vector<float> rounded_;            // its keys: [num_kv_heads][head_dim][num_keys]
  std::vector<std::vector<float>> dots_;  // one for each thread: a row's logits
  std::vector<double> mass_;              // [layer][head][row]
  std::vector<double> means_;
};

struct InductionHead {
  int layer = 0;
  int kv_head = 0;
  double score = 0;
};

struct InductionOptions {
  int64_t period = 1024;  // tokens of one copy; less where the context has no room for two
  int64_t row_stride = 4;
  uint64_t seed = 1;
};

// The scores of all KV heads, layers ascending.
// Errors: invalid (a context below 32 tokens), exhausted, cancelled.
// Memory: queries and keys of one layer, a cache of two periods.
Result<std::vector<InductionHead>> MeasureInduction(
    LoadedModel& model, const InductionOptions& options,
    const std::function<void(int layers_done, int num_layers)>& progress,
    const std::atomic<bool>& cancel);

}  // namespace baton
