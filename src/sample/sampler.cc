#include "sample/sampler.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/portable_math.h"
#include "base/rng.h"
#include "sample/vocabulary_scan.h"

namespace baton {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// The first guess of how many tokens top-p keeps, and how the guess grows.
constexpr int64_t kFirstTopP = 128;
constexpr int64_t kTopPGrowth = 4;

// The greatest logit tells whether a token can be chosen at all.
Result<> CheckFinite(double best_logit) {
  if (best_logit == -kInfinity) {
    return Fail(ErrorCode::kInternal,
                "no token has a finite logit: the model or its input is damaged");
  }
  if (best_logit == kInfinity) {
    return Fail(ErrorCode::kInternal, "a logit is infinite: the model or its input is damaged");
  }
  return {};
}

bool IdBefore(const Candidate& a, const Candidate& b) {
  return a.id < b.id;
}

}  // namespace

Sampler::Sampler(int64_t vocab_size)
    : vocab_size_(vocab_size), counts_(vocab_size), values_(vocab_size), scratch_(kScanBlock) {
  CHECK_GT(vocab_size, 0);
  kept_.reserve(vocab_size);
  weights_.reserve(vocab_size);
}

uint64_t Sampler::BufferBytes(int64_t vocab_size) {
  constexpr uint64_t kBytesPerToken =
      sizeof(int32_t) + sizeof(double) + sizeof(Candidate) + sizeof(double);
  return static_cast<uint64_t>(vocab_size) * kBytesPerToken + kScanBlock * sizeof(double);
}

Result<SampledToken> Sampler::Sample(std::span<const float> logits, const SamplingParams& params,
                                     const TokenHistory& history) {
  SampledToken token;
  CHECK_EQ(std::ssize(logits), vocab_size_);
  const double best_logit = LoadLogits(logits, values_);
  if (auto r = CheckFinite(best_logit); !r) return Forward(r);
  Normaliser raw;
  if (params.num_top_logprobs) {
    raw = NormaliserOf(best_logit);
    ListRawTop(raw, *params.num_top_logprobs, token);
  }
  ApplyBias(params, values_);
  if (!params.logit_bias.empty() && GreatestOf(values_) == -kInfinity) {
    return Fail(ErrorCode::kInvalid, "logit_bias bans every token that the model can give here");
  }
  if (params.has_penalties()) {
    if (auto r = ApplyPenalties(params, history, counts_, values_); !r) return Forward(r);
  }
  if (params.is_greedy()) {
    kept_.assign(1, {static_cast<TokenId>(FirstIndexOf(values_, GreatestOf(values_))), 0.0});
  } else {
    ScaleByTemperature(params.temperature);
    Filter(params);
  }
  const double total_weight = WeighKept();
  const double uniform = UniformAt(
      {.seed = params.seed, .position = static_cast<uint64_t>(history.tokens.size()), .draw = 0});
  const Candidate& chosen = kept_[Draw(total_weight, uniform)];
  token.id = chosen.id;
  if (params.num_top_logprobs) {
    const double log_total = Log(total_weight);
    token.has_logprobs = true;
    token.raw_logprob = raw.Logprob(logits[token.id]);
    token.final_logprob = chosen.value - log_total;
    ListFinalTop(log_total, *params.num_top_logprobs, token);
  }
  return token;
}

Result<SampledToken> Sampler::Score(std::span<const float> logits, TokenId id, int64_t num_top) {
  CHECK_EQ(std::ssize(logits), vocab_size_);
  CHECK_GE(id, 0);
  CHECK_LT(id, vocab_size_);
  const double best_logit = LoadLogits(logits, values_);
  if (auto r = CheckFinite(best_logit); !r) return Forward(r);
  const Normaliser raw = NormaliserOf(best_logit);
  SampledToken token;
  token.id = id;
  token.has_logprobs = true;
  token.raw_logprob = raw.Logprob(values_[id]);
  ListRawTop(raw, num_top, token);
  return token;
}

// Requires: values_ are the logits as they came.
Sampler::Normaliser Sampler::NormaliserOf(double best_logit) {
  return {.best = best_logit, .log_sum = Log(SumOfExp(values_, best_logit, scratch_))};
}

void Sampler::ListRawTop(const Normaliser& raw, int64_t num_top, SampledToken& token) {
  SelectTop(values_, num_top, best_);
  token.raw_top.reserve(best_.size());
  for (const Candidate& candidate : best_) {
    token.raw_top.push_back({candidate.id, raw.Logprob(candidate.value)});
  }
}

void Sampler::ScaleByTemperature(double temperature) {
  const double best = GreatestOf(values_);
  double* values = values_.data();
  for (int64_t i = 0; i < vocab_size_; ++i) values[i] = (values[i] - best) / temperature;
}

void Sampler::Filter(const SamplingParams& params) {
  // The best has value 0; a token min_p times as probable has value ln min_p.
  const double least = params.min_p > 0.0 ? Log(params.min_p) : -kInfinity;
  const bool limited = params.top_k > 0 && params.top_k < vocab_size_;
  if (!limited && params.top_p >= 1.0) {
    kept_.clear();
    for (int64_t i = 0; i < vocab_size_; ++i) {
      if (values_[i] >= least && values_[i] != -kInfinity) {
        kept_.push_back({static_cast<TokenId>(i), values_[i]});
      }
    }
    return;
  }
  if (limited) {
    SelectTop(values_, params.top_k, kept_);
    if (params.top_p < 1.0) {
      double total = 0.0;
      for (const Candidate& candidate : kept_) total += Exp(candidate.value);
      KeepTopP(params.top_p, total);
    }
  } else {
    KeepTopPOfAll(params.top_p);
  }
  std::erase_if(kept_, [least](const Candidate& c) { return c.value < least; });
}

// Cuts kept_, which is in rank order, behind the token with which the share is reached.
void Sampler::KeepTopP(double top_p, double total) {
  double sum = 0.0;
  for (size_t i = 0; i < kept_.size(); ++i) {
    sum += Exp(kept_[i].value);
    if (sum >= top_p * total) {
      kept_.resize(i + 1);
      return;
    }
  }
}

// The share of the whole vocabulary is nearly always reached within its first hundred tokens:
// sorting all would cost most of the time. How many are looked at does not change the outcome.
void Sampler::KeepTopPOfAll(double top_p) {
  const double total = SumOfExp(values_, 0.0, scratch_);
  for (int64_t looked_at = kFirstTopP;; looked_at *= kTopPGrowth) {
    SelectTop(values_, std::min(looked_at, vocab_size_), kept_);
    const size_t found = kept_.size();
    KeepTopP(top_p, total);
    if (kept_.size() < found || looked_at >= vocab_size_) return;
  }
}

// Weighs kept_, ids ascending, and returns the sum of the weights in that order.
double Sampler::WeighKept() {
  if (!std::is_sorted(kept_.begin(), kept_.end(), IdBefore)) {
    std::sort(kept_.begin(), kept_.end(), IdBefore);
  }
  weights_.resize(kept_.size());
  for (size_t i = 0; i < kept_.size(); ++i) weights_[i] = kept_[i].value;
  ExpInto(weights_, weights_);
  double total = 0.0;
  for (const double weight : weights_) total += weight;
  return total;
}

// The index in kept_ at which the running sum of weights passes the drawn share.
size_t Sampler::Draw(double total_weight, double uniform) const {
  const double target = uniform * total_weight;
  double sum = 0.0;
  size_t last_possible = 0;
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] == 0.0) continue;
    last_possible = i;
    sum += weights_[i];
    if (sum > target) return i;
  }
  return last_possible;
}

void Sampler::ListFinalTop(double log_total, int64_t num_top, SampledToken& token) {
  best_.clear();
  for (size_t i = 0; i < kept_.size(); ++i) {
    if (weights_[i] > 0.0) best_.push_back(kept_[i]);
  }
  const int64_t count = std::min(num_top, std::ssize(best_));
  std::partial_sort(best_.begin(), best_.begin() + count, best_.end(), RanksBefore);
  token.final_top.reserve(count);
  for (int64_t i = 0; i < count; ++i) {
    token.final_top.push_back({best_[i].id, best_[i].value - log_total});
  }
}

}  // namespace baton
