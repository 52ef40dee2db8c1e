#include "evaluate/perplexity.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/portable_math.h"
#include "evaluate/log_sum_exp.h"

namespace baton {

std::vector<std::vector<TokenId>> CutWindows(const std::vector<TokenId>& tokens,
                                             std::optional<TokenId> bos, int64_t window) {
  CHECK_GE(window, 2);
  const size_t step = static_cast<size_t>(window) - (bos.has_value() ? 1 : 0);
  std::vector<std::vector<TokenId>> windows;
  for (size_t begin = 0; begin + step <= tokens.size(); begin += step) {
    std::vector<TokenId>& cut = windows.emplace_back();
    cut.reserve(static_cast<size_t>(window));
    if (bos.has_value()) cut.push_back(*bos);
    const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(begin);
    cut.insert(cut.end(), first, first + static_cast<std::ptrdiff_t>(step));
  }
  return windows;
}

double PerplexityFigures::perplexity() const {
  return count == 0 ? 0 : Exp(nll_sum / static_cast<double>(count));
}

double PerplexityFigures::second_half_perplexity() const {
  return second_half_count == 0 ? 0
                                : Exp(second_half_nll_sum / static_cast<double>(second_half_count));
}

Result<PerplexityFigures> MeasurePerplexity(const std::vector<std::vector<TokenId>>& windows,
                                            LoadedModel& model, Generator& generator,
                                            const TargetProgress& progress,
                                            const std::atomic<bool>& cancel) {
  PerplexityFigures figures;
  std::vector<double> partials;
  int64_t total = 0;
  for (const auto& window : windows) total += static_cast<int64_t>(window.size()) - 1;
  for (const std::vector<TokenId>& window : windows) {
    // The logits at a position are about the token after it; the last token predicts nothing.
    std::vector<int64_t> positions(window.size() - 1);
    std::iota(positions.begin(), positions.end(), 0);
    const auto half = static_cast<int64_t>(window.size() / 2);
    double window_nll = 0;
    const Result<> done = generator.Logits(
        window, positions,
        [&](int64_t position, std::span<const float> logits) {
          const int64_t target = position + 1;
          const TokenId id = window[static_cast<size_t>(target)];
          const double nll = LogSumExp(logits, *model.pool, partials) -
                             static_cast<double>(logits[static_cast<size_t>(id)]);
          window_nll += nll;
          ++figures.count;
          if (target >= half) {
            figures.second_half_nll_sum += nll;
            ++figures.second_half_count;
          }
          progress(figures.count, total);
        },
        cancel);
    if (!done) return Forward(done);
    if (cancel) return Fail(ErrorCode::kCancelled, "stopped");
    figures.window_nll.push_back(window_nll);
    figures.nll_sum += window_nll;
  }
  return figures;
}

}  // namespace baton
