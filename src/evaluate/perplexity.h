// Perplexity of a text, window by window.
//
// The whole text is encoded at once, without BOS and without special tokens. Windows do not
// overlap and each starts with an empty cache: if the vocabulary adds BOS, a window is BOS and the
// next window − 1 tokens of the text, else the next `window` tokens. A last window that is not
// whole is left out. Every token of a window but the first is a target; perplexity is
// exp(sum of −ln p of the targets / their number).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/generator.h"
#include "engine/loaded_model.h"

namespace baton {

// The windows of a text. Requires: window >= 2.
std::vector<std::vector<TokenId>> CutWindows(const std::vector<TokenId>& tokens,
                                             std::optional<TokenId> bos, int64_t window);

struct PerplexityFigures {
  std::vector<double> window_nll;  // sums of −ln p
  double nll_sum = 0;
  int64_t count = 0;
  // Of the targets at window / 2 and after only: how well the model does with context.
  double second_half_nll_sum = 0;
  int64_t second_half_count = 0;

  double perplexity() const;
  double second_half_perplexity() const;
};

// Called with the targets done so far, of all.
using TargetProgress = std::function<void(int64_t done, int64_t total)>;

// Measures all windows. Errors: as Generator::Logits; cancelled.
Result<PerplexityFigures> MeasurePerplexity(const std::vector<std::vector<TokenId>>& windows,
                                            LoadedModel& model, Generator& generator,
                                            const TargetProgress& progress,
                                            const std::atomic<bool>& cancel);

}  // namespace baton
