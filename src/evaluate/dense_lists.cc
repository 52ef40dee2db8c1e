#include "evaluate/dense_lists.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>

#include "base/check.h"

namespace baton {
namespace {

// At most every fourth layer is dense.
constexpr int64_t kDenseLayersOf = 4;
// Shares below are not asked for where lists are compared at equal density.
constexpr double kLeastShare = 0.02;

}  // namespace

SparsePolicy WithParameter(SparsePolicy policy, double parameter) {
  if (policy.rule == SelectionRule::kShare) {
    policy.share = std::round(parameter * 1000) / 1000;
  } else {
    policy.alpha = static_cast<float>(std::round(parameter * 1e5) / 1e5);
  }
  return policy;
}

double ParameterOf(const SparsePolicy& policy) {
  return policy.rule == SelectionRule::kShare ? policy.share : static_cast<double>(policy.alpha);
}

double KlAtDensity(const std::vector<TuneTrial>& trials, double density) {
  const auto log_kl = [](const TuneTrial& trial) { return std::log(std::max(trial.kl, 1e-12)); };
  size_t i = 1;
  while (i + 1 < trials.size() && trials[i].density < density) ++i;
  if (trials.size() < 2 || density <= trials.front().density) return trials.front().kl;
  if (density >= trials.back().density) return trials.back().kl;
  const TuneTrial& low = trials[i - 1];
  const TuneTrial& high = trials[i];
  const double width = high.density - low.density;
  const double at = width <= 0 ? 0.5 : (density - low.density) / width;
  return std::exp(log_kl(low) + at * (log_kl(high) - log_kl(low)));
}

double DensityAtKl(const std::vector<TuneTrial>& trials, double kl) {
  double low = trials.front().density;
  double high = trials.back().density;
  if (kl >= trials.front().kl) return low;
  if (kl <= trials.back().kl) return high;
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    (KlAtDensity(trials, middle) > kl ? low : high) = middle;
  }
  return high;
}

void DenseLists::Rank(const std::vector<LayerLoss>& losses) {
  std::map<int, double> gain;
  for (const LayerLoss& loss : losses) {
    const int64_t heads = SparseHeads(loss.layer);
    gain[loss.layer] = heads == 0 ? 0 : loss.kl / static_cast<double>(heads);
  }
  std::ranges::stable_sort(ranked_, std::greater(), [&](int layer) { return gain[layer]; });
}

int64_t DenseLists::SparseHeads(int layer) const {
  const int64_t dense = std::ranges::count(dense_heads_, layer, &DenseHead::layer);
  return num_kv_heads_ - dense;
}

std::vector<int64_t> DenseLists::Lengths() const {
  const int64_t most = std::ssize(ranked_) / kDenseLayersOf;
  std::vector<int64_t> lengths = {0};
  int64_t length = 1;
  while (length <= most) {
    lengths.push_back(length);
    const auto step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(length))) / 2;
    length += std::max<int64_t>(1, step);
  }
  return lengths;
}

std::vector<int> DenseLists::First(int64_t length) const {
  CHECK_LE(length, std::ssize(ranked_));
  std::vector<int> layers(ranked_.begin(), ranked_.begin() + length);
  std::ranges::sort(layers);
  return layers;
}

double DenseLists::DenseShare(int64_t length) const {
  int64_t sparse = 0;
  for (auto layer = ranked_.begin() + length; layer != ranked_.end(); ++layer) {
    sparse += SparseHeads(*layer);
  }
  return 1 - static_cast<double>(sparse) / static_cast<double>(num_kv_heads_ * std::ssize(ranked_));
}

std::optional<double> DenseLists::ShareFor(int64_t length, double density,
                                           const std::vector<TuneTrial>& shares) const {
  CHECK_GE(shares.size(), size_t{2});
  // Of the heads that are sparse.
  const auto sparse_density = [&](double of_all, int64_t of_list) {
    return (of_all - DenseShare(of_list)) / (1 - DenseShare(of_list));
  };
  const double wanted = sparse_density(density, length);
  size_t i = 1;
  while (i + 1 < shares.size() && sparse_density(shares[i].density, 0) < wanted) ++i;
  const TuneTrial& low = shares[i - 1];
  const TuneTrial& high = shares[i];
  const double from = sparse_density(low.density, 0);
  const double to = sparse_density(high.density, 0);
  if (to <= from) return std::nullopt;
  const double at = (wanted - from) / (to - from);
  const double share = low.policy.share + at * (high.policy.share - low.policy.share);
  if (share < kLeastShare) return std::nullopt;
  return std::min(share, 1.0);
}

}  // namespace baton
