// Block-sparse prefill attention in double, straight from the formulas: what the kernels are tested
// against. Any block size; shares no code with them.
//
// Arrays: q [num_queries][num_heads][head_dim], positions first_position on; k, v
// [num_keys][num_kv_heads][head_dim], positions 0 on, num_keys = first_position + num_queries.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace baton {

struct SparseReferenceArgs {
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  int num_heads = 1;
  int num_kv_heads = 1;
  int head_dim = 1;
  int64_t prompt = 0;  // tokens of the whole prompt
  int64_t first_position = 0;
  int64_t num_queries = 0;
  double scale = 1;
  double soft_cap = 0;  // 0: none
  int64_t sliding = 0;  // 0: none

  int64_t block = 64;  // tokens
  int64_t tile = 32;   // positions
  int64_t sink = 0;    // blocks
  int64_t window = 1;  // blocks
  int64_t last_tiles = 0;
  bool is_share = false;
  double alpha = 0.1;
  double share = 1;
  int64_t min_blocks = 0;
  int64_t num_far = 0;  // per `far_tokens` tokens of a block
  int64_t far_tokens = 64;
  bool is_none = false;          // nothing is chosen
  bool has_true_energy = false;  // energies are largest shares of a row's weight

  int64_t num_keys() const { return first_position + num_queries; }
  int group() const { return num_heads / num_kv_heads; }
};

// A vector that stands for `count` tokens.
struct ReferenceEstimate {
  std::vector<double> key;
  std::vector<double> value;
  double count = 0;
};

struct ReferenceTile {
  int64_t tile = 0;
  int64_t first = 0;  // positions
  int64_t last = 0;
  int kv_head = 0;
  bool dense = false;
  int64_t low = 0;  // candidate blocks low..high
  int64_t high = 0;
  int64_t scored_end = 0;
  int64_t edge = 0;
  double log_max = 0;            // of voting logits, biases of far keys included
  std::vector<double> energies;  // of low..scored_end-1
  std::vector<int64_t> kept;
  std::vector<int64_t> corrected;
  // How near the nearest block came to being decided otherwise, relative to the border.
  double margin = HUGE_VAL;
};

struct ReferenceRow {
  std::vector<double> out;
  double lse = -HUGE_VAL;
};

class SparseReference {
 public:
  explicit SparseReference(const SparseReferenceArgs& args) : args_(args) {}

  template <typename T>
  double Logit(const float* q, const T* key) const {
    double sum = 0;
    for (int c = 0; c < args_.head_dim; ++c)
      sum += static_cast<double>(q[c]) * static_cast<double>(key[c]);
    sum *= args_.scale;
    return args_.soft_cap == 0 ? sum : args_.soft_cap * std::tanh(sum / args_.soft_cap);
  }

  // Mean of the tokens [begin, end) without those listed.
  ReferenceEstimate Mean(int64_t begin, int64_t end, int kv_head,
                         const std::vector<int64_t>& without) const {
    ReferenceEstimate mean = {Vector(), Vector(), 0};
    for (int64_t t = begin; t < end; ++t) {
      if (std::find(without.begin(), without.end(), t) != without.end()) continue;
      mean.count += 1;
      for (int c = 0; c < args_.head_dim; ++c) {
        mean.key[Index(c)] += static_cast<double>(Key(t, kv_head)[c]);
        mean.value[Index(c)] += static_cast<double>(Value(t, kv_head)[c]);
      }
    }
    for (double& x : mean.key) x /= mean.count;
    for (double& x : mean.value) x /= mean.count;
    return mean;
  }

  // Tokens of [begin, end) whose keys are farthest from their mean; of equals the lower.
  std::vector<int64_t> FarKeys(int64_t begin, int64_t end, int kv_head, int64_t count) const {
    const ReferenceEstimate mean = Mean(begin, end, kv_head, {});
    std::vector<std::pair<double, int64_t>> order;
    for (int64_t t = begin; t < end; ++t) {
      double distance = 0;
      for (int c = 0; c < args_.head_dim; ++c) {
        const double off = static_cast<double>(Key(t, kv_head)[c]) - mean.key[Index(c)];
        distance += off * off;
      }
      order.emplace_back(-distance, t);
    }
    std::sort(order.begin(), order.end());
    std::vector<int64_t> tokens;
    for (int64_t i = 0; i < count; ++i) tokens.push_back(order[static_cast<size_t>(i)].second);
    return tokens;
  }

  // What stands for a block: its mean, or its far keys and the mean of the rest.
  const std::vector<ReferenceEstimate>& Estimates(int64_t block, int kv_head) const {
    std::vector<ReferenceEstimate>& all = estimates_[{block, kv_head}];
    if (!all.empty()) return all;
    const int64_t begin = block * args_.block;
    const int64_t end = std::min(begin + args_.block, args_.num_keys());
    if (args_.num_far == 0) all.push_back(Mean(begin, end, kv_head, {}));
    for (int64_t part = begin; part < end && args_.num_far > 0; part += args_.far_tokens) {
      const std::vector<int64_t> far =
          FarKeys(part, part + args_.far_tokens, kv_head, args_.num_far);
      all.push_back(Mean(part, part + args_.far_tokens, kv_head, far));
      for (const int64_t t : far) all.push_back(Mean(t, t + 1, kv_head, {}));
    }
    return all;
  }

  // All tiles of the call, tiles ascending, then KV heads.
  std::vector<ReferenceTile> Select() const {
    std::vector<ReferenceTile> tiles;
    const int64_t last_tile = (args_.num_keys() - 1) / args_.tile;
    for (int64_t t = args_.first_position / args_.tile; t <= last_tile; ++t) {
      for (int h = 0; h < args_.num_kv_heads; ++h) tiles.push_back(SelectTile(t, h));
    }
    return tiles;
  }

  ReferenceTile SelectTile(int64_t index, int kv_head) const {
    ReferenceTile tile = Bounds(index, kv_head);
    const int64_t num_tiles = (args_.prompt + args_.tile - 1) / args_.tile;
    tile.dense = index >= num_tiles - args_.last_tiles;
    if (!tile.dense) SumEnergies(tile);
    const std::vector<bool> chosen = tile.dense ? std::vector<bool>() : Choose(tile);
    for (int64_t j = tile.low; j <= tile.high; ++j) {
      if (tile.dense || IsForced(tile, j) || chosen[Index(j - tile.low)]) {
        tile.kept.push_back(j);
      } else {
        tile.corrected.push_back(j);
      }
    }
    return tile;
  }

  // Attention of one row over the tokens it sees of `kept`, and the estimates of `corrected`.
  ReferenceRow Attend(int64_t position, int head, const std::vector<int64_t>& kept,
                      const std::vector<int64_t>& corrected) const {
    const int kv_head = head / args_.group();
    const float* q = Query(position, head);
    // Logits, and where the values are: of tokens as floats, of estimates in double.
    struct Term {
      double logit;
      const float* token;
      const ReferenceEstimate* estimate;
    };
    std::vector<Term> terms;
    const int64_t first =
        args_.sliding == 0 ? 0 : std::max<int64_t>(0, position - args_.sliding + 1);
    for (const int64_t j : kept) {
      for (int64_t t = std::max(first, j * args_.block);
           t <= std::min(position, (j + 1) * args_.block - 1); ++t) {
        terms.push_back({Logit(q, Key(t, kv_head)), Value(t, kv_head), nullptr});
      }
    }
    for (const int64_t j : corrected) {
      for (const ReferenceEstimate& estimate : Estimates(j, kv_head)) {
        terms.push_back(
            {Logit(q, estimate.key.data()) + std::log(estimate.count), nullptr, &estimate});
      }
    }
    ReferenceRow row = {Vector(), -HUGE_VAL};
    if (terms.empty()) return row;
    double top = -HUGE_VAL;
    for (const Term& term : terms) top = std::max(top, term.logit);
    double sum = 0;
    for (const Term& term : terms) {
      const double weight = std::exp(term.logit - top);
      sum += weight;
      for (size_t c = 0; c < row.out.size(); ++c) {
        row.out[c] += weight * (term.token != nullptr ? static_cast<double>(term.token[c])
                                                      : term.estimate->value[c]);
      }
    }
    for (double& x : row.out) x /= sum;
    row.lse = top + std::log(sum);
    return row;
  }

  ReferenceRow AttendDense(int64_t position, int head) const {
    std::vector<int64_t> all;
    for (int64_t j = 0; j * args_.block <= position; ++j) all.push_back(j);
    return Attend(position, head, all, {});
  }

 private:
  static size_t Index(int64_t i) { return static_cast<size_t>(i); }
  std::vector<double> Vector() const { return std::vector<double>(Index(args_.head_dim)); }
  const float* Key(int64_t token, int kv_head) const {
    return args_.k + (token * args_.num_kv_heads + kv_head) * args_.head_dim;
  }
  const float* Value(int64_t token, int kv_head) const {
    return args_.v + (token * args_.num_kv_heads + kv_head) * args_.head_dim;
  }
  const float* Query(int64_t position, int head) const {
    return args_.q + ((position - args_.first_position) * args_.num_heads + head) * args_.head_dim;
  }

  ReferenceTile Bounds(int64_t index, int kv_head) const {
    ReferenceTile tile = {
        .tile = index, .kv_head = kv_head, .energies = {}, .kept = {}, .corrected = {}};
    tile.first = std::max(index * args_.tile, args_.first_position);
    tile.last = std::min((index + 1) * args_.tile, args_.num_keys()) - 1;
    const auto lowest = [&](int64_t position) {
      return args_.sliding == 0 ? int64_t{0} : std::max<int64_t>(0, position - args_.sliding + 1);
    };
    tile.low = lowest(tile.first) / args_.block;
    tile.edge = (lowest(tile.last) + args_.block - 1) / args_.block;
    tile.high = tile.last / args_.block;
    tile.scored_end = (tile.last + 1) / args_.block;
    return tile;
  }

  bool Votes(int64_t position, int64_t block) const {
    return block * args_.block <= position &&
           (args_.sliding == 0 || (block + 1) * args_.block - 1 > position - args_.sliding);
  }

  void SumEnergies(ReferenceTile& tile) const {
    // z[block][estimate][row]; a row that does not vote has -infinity.
    std::vector<std::vector<double>> logits;
    tile.log_max = -HUGE_VAL;
    for (int64_t j = tile.low; j < tile.scored_end; ++j) {
      logits.emplace_back();
      for (const ReferenceEstimate& estimate : Estimates(j, tile.kv_head)) {
        const double bias = args_.num_far == 0 ? 0.0 : std::log(estimate.count);
        for (int64_t p = tile.first; p <= tile.last; ++p) {
          for (int i = 0; i < args_.group() && Votes(p, j); ++i) {
            const float* q = Query(p, tile.kv_head * args_.group() + i);
            logits.back().push_back(Logit(q, estimate.key.data()) + bias);
            tile.log_max = std::max(tile.log_max, logits.back().back());
          }
        }
      }
    }
    if (args_.has_true_energy) return WeighBlocks(tile);
    for (const std::vector<double>& of_block : logits) {
      double sum = 0;
      for (const double z : of_block) sum += std::exp(z - tile.log_max);
      tile.energies.push_back(sum);
    }
  }

  // The largest share of any row's weight in each scored block.
  void WeighBlocks(ReferenceTile& tile) const {
    tile.energies.assign(Index(tile.scored_end - tile.low), 0.0);
    for (int64_t p = tile.first; p <= tile.last; ++p) {
      for (int i = 0; i < args_.group(); ++i) {
        const float* q = Query(p, tile.kv_head * args_.group() + i);
        const int64_t from = args_.sliding == 0 ? 0 : std::max<int64_t>(0, p - args_.sliding + 1);
        std::vector<double> logit;
        for (int64_t t = from; t <= p; ++t) logit.push_back(Logit(q, Key(t, tile.kv_head)));
        const double top = *std::max_element(logit.begin(), logit.end());
        double sum = 0;
        std::map<int64_t, double> of_block;
        for (int64_t t = from; t <= p; ++t) {
          const double weight = std::exp(logit[Index(t - from)] - top);
          sum += weight;
          of_block[t / args_.block] += weight;
        }
        for (const auto& [block, weight] : of_block) {
          if (block >= tile.scored_end) continue;
          double& energy = tile.energies[Index(block - tile.low)];
          energy = std::max(energy, weight / sum);
        }
      }
    }
  }

  bool IsForced(const ReferenceTile& tile, int64_t block) const {
    return block < args_.sink || block >= tile.first / args_.block - args_.window + 1 ||
           block < tile.edge;
  }

  std::vector<bool> Choose(ReferenceTile& tile) const {
    std::vector<bool> chosen(Index(tile.high - tile.low + 1), false);
    if (args_.is_none) return chosen;
    const auto energy = [&](int64_t block) { return tile.energies[Index(block - tile.low)]; };
    if (!args_.is_share) {
      double largest = 0;
      for (const double e : tile.energies) largest = std::max(largest, e);
      for (int64_t j = tile.low; j < tile.scored_end; ++j) {
        chosen[Index(j - tile.low)] = energy(j) >= args_.alpha * largest;
        if (IsForced(tile, j) || args_.alpha == 0) continue;
        tile.margin = std::min(tile.margin, std::fabs(energy(j) / (args_.alpha * largest) - 1));
      }
      return chosen;
    }
    std::vector<std::pair<double, int64_t>> order;
    for (int64_t j = tile.low; j <= tile.high; ++j) {
      if (!IsForced(tile, j)) order.emplace_back(-energy(j), j);
    }
    std::sort(order.begin(), order.end());
    const auto size = static_cast<int64_t>(order.size());
    const auto wanted =
        static_cast<int64_t>(std::floor(args_.share * static_cast<double>(size) + 0.5));
    const int64_t count = std::min(size, std::max(args_.min_blocks, wanted));
    for (int64_t i = 0; i < count; ++i) {
      chosen[Index(order[Index(i)].second - tile.low)] = true;
    }
    if (count > 0 && count < size) {
      tile.margin = std::fabs(order[Index(count)].first / order[Index(count - 1)].first - 1);
    }
    return chosen;
  }

  SparseReferenceArgs args_;
  mutable std::map<std::pair<int64_t, int>, std::vector<ReferenceEstimate>> estimates_;
};

}  // namespace baton
