// Lists of layers that stay dense: which layer would be dense first, how long a list may be, and
// which share of blocks the other layers then read at the same density; and what the policies that
// were tried say of those between them. Plain arithmetic: nothing here reads a text.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/sparse_policy.h"

namespace baton {

// What a layer loses that is sparse alone.
struct LayerLoss {
  int layer = 0;
  double kl = 0;
};

// A policy that was tried on all texts.
struct TuneTrial {
  SparsePolicy policy;
  double kl = 0;
  double density = 1;
};

// The policy with another parameter of its rule: the share, or alpha; rounded to what is written.
SparsePolicy WithParameter(SparsePolicy policy, double parameter);
double ParameterOf(const SparsePolicy& policy);

// Between two trials the logarithm of the divergence is taken for linear in the density; before the
// first and behind the last it is theirs. Requires: at least one trial, densities ascending.
double KlAtDensity(const std::vector<TuneTrial>& trials, double density);
// The inverse: at which density the divergence is reached, between the ends of the trials.
double DensityAtKl(const std::vector<TuneTrial>& trials, double kl);

class DenseLists {
 public:
  // Of the layers that see everything, each with so many KV heads. Dense heads stay so whatever the
  // list.
  DenseLists(std::vector<int> layers, int64_t num_kv_heads)
      : ranked_(std::move(layers)), num_kv_heads_(num_kv_heads) {}
  void SetDenseHeads(std::vector<DenseHead> heads) { dense_heads_ = std::move(heads); }

  // Orders the layers by what each loses for each of its heads that is not dense yet, largest
  // first.
  void Rank(const std::vector<LayerLoss>& losses);

  // How many layers may be dense: 0, 1, 2, 3, 4, 6, 8, 12 ... up to every fourth.
  std::vector<int64_t> Lengths() const;
  // The first `length` layers of the order, ascending. Requires: so many layers.
  std::vector<int> First(int64_t length) const;
  // The share of all KV heads that are dense with a list.
  double DenseShare(int64_t length) const;
  // The share of blocks that gives a list the wanted density, by trials of several shares without a
  // list; nothing if the list alone is denser. Requires: two trials, densities ascending.
  std::optional<double> ShareFor(int64_t length, double density,
                                 const std::vector<TuneTrial>& shares) const;

 private:
  // KV heads of a layer that are not dense whatever the list.
  int64_t SparseHeads(int layer) const;

  std::vector<int> ranked_;  // what is best made dense first
  int64_t num_kv_heads_;
  std::vector<DenseHead> dense_heads_;
};

}  // namespace baton
