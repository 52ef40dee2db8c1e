#include "evaluate/induction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/number_text.h"
#include "base/rng.h"
#include "forward/step_forward.h"
#include "kv/block_table.h"
#include "tensor/half.h"

namespace baton {
namespace {

constexpr int64_t kLeastContext = 32;

// Random tokens twice, behind BOS if the vocabulary adds it.
struct RepeatedTokens {
  std::vector<TokenId> tokens;
  std::vector<int64_t> rows;  // of the second copy, those that are looked at
  std::vector<int64_t> keys;
};

RepeatedTokens Repeat(const LoadedModel& model, const InductionOptions& options) {
  const Tokenizer& tokenizer = *model.tokenizer;
  const bool has_bos = tokenizer.adds_bos() && tokenizer.bos() != kNoToken;
  const int64_t before = has_bos ? 1 : 0;
  const int64_t period = std::min(options.period, (model.context_tokens - before) / 2);
  RepeatedTokens repeated;
  if (has_bos) repeated.tokens.push_back(tokenizer.bos());
  RandomStream random({.seed = options.seed, .stream = 0x696e6475ull});
  const auto vocab_size = static_cast<uint64_t>(model.model->spec().vocab_size);
  for (int64_t i = 0; i < period; ++i) {
    repeated.tokens.push_back(static_cast<TokenId>(random.NextBelow(vocab_size)));
  }
  for (int64_t i = 0; i < period; ++i) {
    repeated.tokens.push_back(repeated.tokens[static_cast<size_t>(before + i)]);
  }
  // The last token of the copy is followed by the copy's own first one; it is left out.
  for (int64_t i = 0; i + 1 < period; i += options.row_stride) {
    repeated.rows.push_back(before + period + i);
    repeated.keys.push_back(before + i + 1);
  }
  return repeated;
}

class LayerProgress final : public StepProgress {
 public:
  explicit LayerProgress(const std::function<void(int, int)>& tell) : tell_(tell) {}
  void OnLayerDone(int layers_done, int num_layers) override {
    if (tell_) tell_(layers_done, num_layers);
  }

 private:
  const std::function<void(int, int)>& tell_;
};

}  // namespace

AttentionMassProbe::AttentionMassProbe(const ModelSpec& spec, ThreadPool& pool,
                                       const MassQuestion& question)
    : spec_(spec), pool_(pool), question_(question) {
  CHECK_EQ(question.rows.size(), question.keys.size());
  CHECK(!question.rows.empty());
  const auto num_heads =
      static_cast<size_t>(spec.num_layers()) * static_cast<size_t>(spec.num_heads);
  mass_.resize(num_heads * question.rows.size());
  means_.resize(num_heads);
  dots_.resize(static_cast<size_t>(pool.num_threads()));
}

void AttentionMassProbe::OnValues(std::string_view name, int layer, View2<const float> values) {
  if (name == "q_rope") queries_ = values;
  if (name == "k_rope") Measure(layer, values);
}

View2<const double> AttentionMassProbe::means() const {
  return {means_.data(), spec_.num_layers(), spec_.num_heads};
}

// Keys are turned so that a row's dot products run over neighbours.
void AttentionMassProbe::Measure(int layer, View2<const float> keys) {
  const int64_t num_keys = keys.rows();
  const int64_t width = int64_t{spec_.num_kv_heads} * spec_.head_dim;
  rounded_.resize(static_cast<size_t>(num_keys * width));
  for (int64_t t = 0; t < num_keys; ++t) {
    for (int64_t c = 0; c < width; ++c) {
      rounded_[static_cast<size_t>(c * num_keys + t)] = HalfToFloat(FloatToHalf(keys.row(t)[c]));
    }
  }
  const LayerSpec& spec = spec_.layers[static_cast<size_t>(layer)];
  const int64_t num_rows = std::ssize(question_.rows);
  const int group = spec_.num_heads / spec_.num_kv_heads;
  double* const mass = mass_.data() + int64_t{layer} * spec_.num_heads * num_rows;
  pool_.ParallelFor(spec_.num_heads * num_rows, [&](int64_t task, int worker) {
    const int64_t head = task / num_rows;
    const auto row = static_cast<size_t>(task % num_rows);
    const int64_t position = question_.rows[row];
    const int64_t key = question_.keys[row];
    const int64_t window = spec.sliding_window;
    const int64_t first = window == 0 ? 0 : std::max<int64_t>(0, position - window + 1);
    mass[task] = 0;
    if (key < first || key > position) return;
    std::vector<float>& dots = dots_[static_cast<size_t>(worker)];
    dots.assign(static_cast<size_t>(position + 1), 0.0f);
    const float* q = queries_.row(position) + head * spec_.head_dim;
    const float* k = rounded_.data() + head / group * spec_.head_dim * num_keys;
    for (int c = 0; c < spec_.head_dim; ++c, k += num_keys) {
      for (int64_t t = first; t <= position; ++t) dots[static_cast<size_t>(t)] += q[c] * k[t];
    }
    const auto logit = [&](int64_t t) {
      const double s = static_cast<double>(dots[static_cast<size_t>(t)]) *
                       static_cast<double>(spec.attention_scale);
      const auto cap = static_cast<double>(spec.attention_soft_cap);
      return cap == 0 ? s : cap * std::tanh(s / cap);
    };
    double largest = -HUGE_VAL;
    for (int64_t t = first; t <= position; ++t) largest = std::max(largest, logit(t));
    double sum = 0;
    for (int64_t t = first; t <= position; ++t) sum += std::exp(logit(t) - largest);
    mass[task] = std::exp(logit(key) - largest) / sum;
  });
  for (int64_t head = 0; head < spec_.num_heads; ++head) {
    const double* from = mass + head * num_rows;
    means_[static_cast<size_t>(int64_t{layer} * spec_.num_heads + head)] =
        std::accumulate(from, from + num_rows, 0.0) / static_cast<double>(num_rows);
  }
}

Result<std::vector<InductionHead>> MeasureInduction(
    LoadedModel& model, const InductionOptions& options,
    const std::function<void(int layers_done, int num_layers)>& progress,
    const std::atomic<bool>& cancel) {
  if (model.context_tokens < kLeastContext) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("the context is {}; induction heads show from {} on",
                            CountOf(model.context_tokens, "token"), CountText(kLeastContext)));
  }
  const ModelSpec& spec = model.model->spec();
  const RepeatedTokens repeated = Repeat(model, options);
  const int64_t num_tokens = std::ssize(repeated.tokens);
  const Result<BlockLayout> layout = KvLayoutOf(spec, model.options.kv_type);
  if (!layout) return Forward(layout);
  Result<BlockPool> pool = BlockPool::Make(*layout, static_cast<int32_t>(NumBlocksFor(num_tokens)));
  if (!pool) return Forward(pool);
  Result<StepForward> forward = StepForward::Make(
      *model.model, *pool, {.table = KernelsFor(model.options.isa), .pool = *model.pool},
      {.max_sequences = 1,
       .max_rows = num_tokens,
       .max_context = num_tokens,
       .precision = model.options.precision});
  if (!forward) return Forward(forward);
  AttentionMassProbe probe(spec, *model.pool, {.rows = repeated.rows, .keys = repeated.keys});
  forward->SetObserver(&probe);
  BlockTable table(*pool, num_tokens);
  if (Result<> reserved = table.Reserve(num_tokens); !reserved) return Forward(reserved);
  StepPlan plan;
  SequenceStep& step = plan.sequences.emplace_back();
  step.tokens = repeated.tokens;
  step.blocks.assign(table.blocks().begin(), table.blocks().end());
  LayerProgress layers(progress);
  Result<> run = forward->Run(plan, [](std::span<const RowLogits>) {},
                              {.cancel = cancel, .progress = &layers});
  if (!run) return Forward(run);
  std::vector<InductionHead> heads;
  const int group = spec.num_heads / spec.num_kv_heads;
  for (int layer = 0; layer < spec.num_layers(); ++layer) {
    const double* scores = probe.means().row(layer);
    for (int h = 0; h < spec.num_kv_heads; ++h) {
      heads.push_back({.layer = layer,
                       .kv_head = h,
                       .score = *std::max_element(scores + h * group, scores + (h + 1) * group)});
    }
  }
  return heads;
}

}  // namespace baton
