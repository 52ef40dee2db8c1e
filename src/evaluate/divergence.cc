#include "evaluate/divergence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/number_text.h"
#include "base/system_files.h"
#include "bench/measure.h"
#include "engine/available_memory.h"
#include "evaluate/log_sum_exp.h"
#include "evaluate/logit_distance.h"
#include "evaluate/prompt_reader.h"
#include "tensor/aligned_buffer.h"

namespace baton {
namespace {

std::vector<int64_t> UnionOf(const std::vector<PositionSet>& sets) {
  std::vector<int64_t> all;
  for (const PositionSet& set : sets) {
    all.insert(all.end(), set.positions.begin(), set.positions.end());
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

Result<> CheckOptions(std::span<const TokenId> tokens, const DivergenceOptions& options) {
  if (tokens.empty()) return Fail(ErrorCode::kInvalid, "there are no tokens to compare on");
  if (options.policies.empty()) {
    return Fail(ErrorCode::kInvalid, "there is no sparse policy to compare with dense prefill");
  }
  for (const PositionSet& set : options.sets) {
    if (set.positions.empty()) {
      return Fail(ErrorCode::kInvalid, fmt::format("the set of positions '{}' is empty", set.name));
    }
    for (const int64_t position : set.positions) {
      if (position >= 0 && position < std::ssize(tokens)) continue;
      return Fail(ErrorCode::kInvalid,
                  fmt::format("positions must be in 0..{}, got {} in the set '{}'",
                              std::ssize(tokens) - 1, position, set.name));
    }
  }
  return {};
}

// What is known of one position after the dense run, and of one policy.
struct PositionLoss {
  double kl = 0;
  double nll = 0;  // of the next token; of the last position nothing
  bool is_same_top = false;
};

// The dense logits of the wanted positions, and what other logits lose against them.
class DenseLogits {
 public:
  static Result<DenseLogits> Make(LoadedModel& model, std::span<const TokenId> tokens,
                                  const DivergenceOptions& options) {
    DenseLogits dense(model, tokens, UnionOf(options.sets));
    const auto vocabulary = static_cast<uint64_t>(model.model->spec().vocab_size);
    const uint64_t needed = dense.positions_.size() * vocabulary * sizeof(float);
    const uint64_t free = AvailableMemory(SystemFolders()).value_or(options.max_bytes);
    if (needed > std::min(options.max_bytes, free)) {
      return Fail(ErrorCode::kExhausted,
                  fmt::format("the dense logits of {} over a vocabulary of {} take "
                              "{}, and {} may be used; ask for fewer positions",
                              CountOf(std::ssize(dense.positions_), "position"),
                              CountText(static_cast<int64_t>(vocabulary)), BytesText(needed),
                              BytesText(std::min(options.max_bytes, free))));
    }
    Result<AlignedBuffer<float>> logits =
        AlignedBuffer<float>::Allocate(dense.positions_.size() * vocabulary);
    if (!logits) return Forward(logits);
    dense.logits_ = *std::move(logits);
    dense.log_sums_.resize(dense.positions_.size());
    return dense;
  }

  const ModelSpec& spec() const { return model_->model->spec(); }
  const std::vector<int64_t>& positions() const { return positions_; }

  void Keep(int64_t position, std::span<const float> logits) {
    const size_t index = IndexOf(position);
    std::copy(logits.begin(), logits.end(), logits_.data() + index * logits.size());
    log_sums_[index] = LogSumExp(logits, *model_->pool, partials_);
  }

  PositionLoss LossAt(int64_t position, std::span<const float> logits) {
    const size_t index = IndexOf(position);
    const LogitRow dense = {.logits = {logits_.data() + index * logits.size(), logits.size()},
                            .log_sum = log_sums_[index]};
    const LogitRow sparse = {.logits = logits,
                             .log_sum = LogSumExp(logits, *model_->pool, partials_)};
    return {.kl = KlDivergence(dense, sparse, *model_->pool, partials_),
            .nll = NllAt(position, sparse),
            .is_same_top = LikeliestToken(dense.logits) == LikeliestToken(sparse.logits)};
  }

  // Mean over the positions that have a next token; 0 if none has.
  double MeanNll(const PositionSet& set) const {
    double sum = 0;
    int64_t count = 0;
    for (const int64_t position : set.positions) {
      if (!HasNext(position)) continue;
      const size_t index = IndexOf(position);
      const size_t size = logits_.size() / positions_.size();
      sum += NllAt(position,
                   {.logits = {logits_.data() + index * size, size}, .log_sum = log_sums_[index]});
      ++count;
    }
    return count == 0 ? 0 : sum / static_cast<double>(count);
  }

  size_t IndexOf(int64_t position) const {
    const auto at = std::lower_bound(positions_.begin(), positions_.end(), position);
    CHECK(at != positions_.end() && *at == position);
    return static_cast<size_t>(at - positions_.begin());
  }
  bool HasNext(int64_t position) const { return position + 1 < std::ssize(tokens_); }

 private:
  DenseLogits(LoadedModel& model, std::span<const TokenId> tokens, std::vector<int64_t> positions)
      : model_(&model), tokens_(tokens), positions_(std::move(positions)) {}

  double NllAt(int64_t position, const LogitRow& row) const {
    if (!HasNext(position)) return 0;
    const TokenId next = tokens_[static_cast<size_t>(position) + 1];
    return row.log_sum - static_cast<double>(row.logits[static_cast<size_t>(next)]);
  }

  LoadedModel* model_;
  std::span<const TokenId> tokens_;
  std::vector<int64_t> positions_;
  AlignedBuffer<float> logits_;  // [positions, vocab_size]
  std::vector<double> log_sums_;
  std::vector<double> partials_;
};

double Percentile(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

DivergenceFigures SumUp(const DenseLogits& dense, const PositionSet& set,
                        const std::vector<PositionLoss>& losses) {
  DivergenceFigures figures = {.count = std::ssize(set.positions)};
  std::vector<double> kl;
  double nll = 0;
  int64_t num_next = 0;
  for (const int64_t position : set.positions) {
    const PositionLoss& loss = losses[dense.IndexOf(position)];
    kl.push_back(loss.kl);
    figures.mean += loss.kl;
    figures.top1 += loss.is_same_top ? 1 : 0;
    nll += loss.nll;
    num_next += dense.HasNext(position) ? 1 : 0;
  }
  std::sort(kl.begin(), kl.end());
  const auto count = static_cast<double>(figures.count);
  figures.mean /= count;
  figures.top1 /= count;
  figures.p95 = Percentile(kl, 0.95);
  figures.p99 = Percentile(kl, 0.99);
  figures.max = kl.back();
  if (num_next > 0) figures.nll_change = nll / static_cast<double>(num_next) - dense.MeanNll(set);
  return figures;
}

// Of the layers that a policy can make sparse.
double DensityUnder(const SparsePolicy& policy, const ModelSpec& spec,
                    const PrefillReport& report) {
  BlockCounts all;
  for (size_t i = 0; i < report.layers.size(); ++i) {
    if (spec.layers[i].sliding_window != 0 && !policy.has_sparse_windows) continue;
    all.kept += report.layers[i].kept;
    all.candidates += report.layers[i].candidates;
  }
  return DensityOf(all);
}

// Reads the same tokens again and again, and tells how far all of it is.
class Comparison {
 public:
  Comparison(PromptReader reader, std::span<const TokenId> tokens, const DivergenceOptions& options,
             const TokenProgress& progress, const std::atomic<bool>& cancel)
      : reader_(std::move(reader)),
        tokens_(tokens),
        options_(options),
        progress_(progress),
        cancel_(cancel) {}

  Result<DivergenceResult> Run(DenseLogits& dense) {
    DivergenceResult result;
    Result<double> read = Read(
        {.tokens = tokens_, .positions = dense.positions()},
        [&](int64_t position, std::span<const float> logits) { dense.Keep(position, logits); });
    if (!read) return Forward(read);
    for (const PositionSet& set : options_.sets) result.dense_nll.push_back(dense.MeanNll(set));
    std::vector<PositionLoss> losses(dense.positions().size());
    for (const SparsePolicy& policy : options_.policies) {
      PolicyDivergence& one = result.policies.emplace_back();
      one.policy = policy;
      read = Read({.tokens = tokens_,
                   .policy = &policy,
                   .positions = dense.positions(),
                   .report = &one.report},
                  [&](int64_t position, std::span<const float> logits) {
                    losses[dense.IndexOf(position)] = dense.LossAt(position, logits);
                  });
      if (!read) return Forward(read);
      one.density = DensityUnder(policy, dense.spec(), one.report);
      for (const PositionSet& set : options_.sets) one.sets.push_back(SumUp(dense, set, losses));
    }
    if (Result<> timed = TakeTimes(result); !timed) return Forward(timed);
    return result;
  }

 private:
  Result<double> Read(const PromptReading& reading, const PromptReader::Visit& visit) {
    const int64_t size = std::ssize(tokens_);
    const int64_t total = size * (options_.num_rounds + 1) * (std::ssize(options_.policies) + 1);
    const int64_t before = size * num_reads_++;
    return reader_.Read(
        reading, visit,
        [&](int64_t done) {
          if (progress_) progress_(before + done, total);
        },
        cancel_);
  }

  // The same work in turn, so that what slows the machine down slows down all of a round.
  Result<> TakeTimes(DivergenceResult& result) {
    const int64_t last = std::ssize(tokens_) - 1;
    const auto ignore = [](int64_t, std::span<const float>) {};
    for (int round = 0; round < options_.num_rounds; ++round) {
      Result<double> seconds = Read({.tokens = tokens_, .positions = {&last, 1}}, ignore);
      if (!seconds) return Forward(seconds);
      result.dense_seconds.push_back(*seconds);
      for (PolicyDivergence& one : result.policies) {
        seconds = Read({.tokens = tokens_, .policy = &one.policy, .positions = {&last, 1}}, ignore);
        if (!seconds) return Forward(seconds);
        one.seconds.push_back(*seconds);
      }
    }
    if (options_.num_rounds == 0) return {};
    for (PolicyDivergence& one : result.policies) {
      one.time_ratio = MedianRatio(one.seconds, result.dense_seconds);
    }
    return {};
  }

  PromptReader reader_;
  std::span<const TokenId> tokens_;
  const DivergenceOptions& options_;
  const TokenProgress& progress_;
  const std::atomic<bool>& cancel_;
  int64_t num_reads_ = 0;
};

}  // namespace

std::vector<PositionSet> LastAndSpread(int64_t num_tokens, int64_t count) {
  CHECK_GE(num_tokens, 1);
  CHECK_GE(count, 1);
  count = std::min(count, num_tokens);
  std::vector<PositionSet> sets = {{.name = "last", .positions = {}},
                                   {.name = "spread", .positions = {}}};
  for (int64_t i = 0; i < count; ++i) {
    sets[0].positions.push_back(num_tokens - count + i);
    sets[1].positions.push_back((2 * i + 1) * num_tokens / (2 * count));
  }
  return sets;
}

double DensityOf(const BlockCounts& counts) {
  return counts.candidates == 0
             ? 1
             : static_cast<double>(counts.kept) / static_cast<double>(counts.candidates);
}

Result<DivergenceResult> MeasureDivergence(LoadedModel& model, std::span<const TokenId> tokens,
                                           const DivergenceOptions& options,
                                           const TokenProgress& progress,
                                           const std::atomic<bool>& cancel) {
  if (Result<> valid = CheckOptions(tokens, options); !valid) return Forward(valid);
  const PolicyModel shape = PolicyModelOf(model.model->spec());
  for (const SparsePolicy& policy : options.policies) {
    if (Result<> valid = ValidatePolicyFor(policy, shape); !valid) return Forward(valid);
  }
  Result<PromptReader> reader = PromptReader::Make(model, std::ssize(tokens));
  if (!reader) return Forward(reader);
  Result<DenseLogits> dense = DenseLogits::Make(model, tokens, options);
  if (!dense) return Forward(dense);
  return Comparison(*std::move(reader), tokens, options, progress, cancel).Run(*dense);
}

}  // namespace baton
