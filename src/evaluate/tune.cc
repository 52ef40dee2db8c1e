#include "evaluate/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/number_text.h"
#include "evaluate/divergence.h"
#include "kernels/sparse_policy_text.h"

namespace baton {
namespace {

// What is tried at first: from little to much.
constexpr double kShares[] = {0.08, 0.15, 0.25, 0.4, 0.6};
constexpr float kAlphas[] = {0.3f, 0.1f, 0.03f, 0.01f, 0.003f};
// Of a layer that is sparse alone.
constexpr double kLayerShare = 0.15;
// Further parameters between the last one that loses too much and the first that does not.
constexpr int kRefinements = 3;
constexpr int64_t kShortestTiming = 512;
constexpr int kTimedRounds = 3;

// Positions of a set: half a thousand, fewer where their logits take too much memory.
int64_t PositionsFor(const ModelSpec& spec) {
  return std::clamp<int64_t>((int64_t{1} << 26) / spec.vocab_size, 256, 512);
}

double MeanKl(const PolicyDivergence& divergence) {
  double sum = 0;
  for (const DivergenceFigures& set : divergence.sets) sum += set.mean;
  return sum / static_cast<double>(divergence.sets.size());
}

// Those that see everything.
std::vector<int> GlobalLayers(const ModelSpec& spec) {
  std::vector<int> layers;
  for (int layer = 0; layer < spec.num_layers(); ++layer) {
    if (spec.layers[static_cast<size_t>(layer)].sliding_window == 0) layers.push_back(layer);
  }
  return layers;
}

class Tuner {
 public:
  Tuner(LoadedModel& model, const TuneOptions& options, const TuneProgress& progress,
        const std::atomic<bool>& cancel)
      : model_(model),
        options_(options),
        progress_(progress),
        cancel_(cancel),
        policy_(DefaultSparsePolicy()),
        global_(GlobalLayers(model.model->spec())),
        lists_(global_, model.model->spec().num_kv_heads),
        text_losses_(options.texts.size()) {
    for (const std::vector<TokenId>& text : options.texts) {
      text_tokens_ += std::ssize(text);
      if (longest_ == nullptr || text.size() > longest_->size()) longest_ = &text;
    }
    // Tokens that are read, for the bar: a guess that is exact but for what steps leave out.
    const int64_t layer_tokens = HalfOf(*longest_) * (std::ssize(global_) + 1);
    const int64_t lists = std::ssize(lists_.Lengths()) + 3;
    const auto tries = static_cast<int64_t>(std::size(kShares) + std::size(kAlphas) + 2) + lists;
    constexpr int64_t kDenseReads = 5;
    total_ = 2048 + layer_tokens + text_tokens_ * (tries + kRefinements + kDenseReads) +
             std::ssize(*longest_) * 2 * 2 * (kTimedRounds + 1);
  }

  Result<TuneResult> Run() {
    if (global_.empty()) {
      return Fail(ErrorCode::kInvalid,
                  "all layers of the model have a sliding window: a sparse prefill has nothing to "
                  "leave out");
    }
    Result<> done = FindInductionHeads();
    if (done) done = TryShares();
    if (done) done = RankLayers();
    if (done) done = ChooseLayers();
    if (done) done = ChooseRule();
    if (done && result_.meets_kl) done = TimeBoth();
    if (!done) return Forward(done);
    return std::move(result_);
  }

 private:
  static int64_t HalfOf(const std::vector<TokenId>& text) {
    return std::max(kLeastTuneTokens, std::ssize(text) / 2);
  }

  void Tell(int64_t tokens) const {
    if (progress_) progress_(std::min(done_ + tokens, total_), total_);
  }

  Result<DivergenceResult> Measure(std::span<const TokenId> tokens,
                                   const DivergenceOptions& wanted) {
    int64_t all = 0;
    Result<DivergenceResult> measured = MeasureDivergence(
        model_, tokens, wanted,
        [&](int64_t done, int64_t total) {
          all = total;
          Tell(done);
        },
        cancel_);
    done_ += all;
    return measured;
  }

  Result<> FindInductionHeads() {
    Result<std::vector<InductionHead>> heads = MeasureInduction(
        model_, InductionOptions(),
        [&](int done, int num_layers) { Tell(int64_t{2048} * done / num_layers); }, cancel_);
    if (!heads) return Forward(heads);
    done_ += 2048;
    result_.induction = *std::move(heads);
    for (const InductionHead& head : result_.induction) {
      if (head.score <= options_.induction_limit) continue;
      policy_.dense_heads.push_back({.layer = head.layer, .kv_head = head.kv_head});
    }
    lists_.SetDenseHeads(policy_.dense_heads);
    return {};
  }

  // Several shares without dense layers.
  Result<> TryShares() {
    std::vector<SparsePolicy> policies;
    for (const double share : kShares) policies.push_back(WithParameter(WithList(0), share));
    Result<std::vector<TuneTrial>> tried = Try(policies);
    if (!tried) return Forward(tried);
    shares_ = *std::move(tried);
    return {};
  }

  // What each layer that sees everything loses when it alone is sparse, on the text that loses most
  // by shares; the order in which they are made dense is that of the loss for each head that is not
  // dense yet. A text that has little to look up would put the first layers first, whose changes
  // all others round anew.
  Result<> RankLayers() {
    const auto worst = std::ranges::max_element(text_losses_) - text_losses_.begin();
    const std::vector<TokenId>& text = options_.texts[static_cast<size_t>(worst)];
    const int64_t length = HalfOf(text);
    DivergenceOptions wanted;
    wanted.sets = LastAndSpread(length, PositionsFor(model_.model->spec()) / 2);
    for (const int layer : global_) {
      SparsePolicy alone = policy_;
      alone.rule = SelectionRule::kShare;
      alone.share = kLayerShare;
      alone.dense_layers.clear();
      for (const int other : global_) {
        if (other != layer) alone.dense_layers.push_back(other);
      }
      wanted.policies.push_back(std::move(alone));
    }
    const Result<DivergenceResult> measured =
        Measure(std::span(text).first(static_cast<size_t>(length)), wanted);
    if (!measured) return Forward(measured);
    for (size_t i = 0; i < global_.size(); ++i) {
      result_.layers.push_back({.layer = global_[i], .kl = MeanKl(measured->policies[i])});
    }
    lists_.Rank(result_.layers);
    return {};
  }

  // The first `length` layers dense, besides the heads.
  SparsePolicy WithList(int64_t length) const {
    SparsePolicy policy = policy_;
    policy.rule = SelectionRule::kShare;
    policy.dense_layers = lists_.First(length);
    return policy;
  }

  // The list that loses least at a density. Requires: the first length is 0 or fits the density.
  Result<std::pair<int64_t, double>> BestList(const std::vector<int64_t>& lengths, double density) {
    std::vector<SparsePolicy> policies;
    for (const int64_t length : lengths) {
      const std::optional<double> share = lists_.ShareFor(length, density, shares_);
      if (share.has_value()) policies.push_back(WithParameter(WithList(length), *share));
    }
    if (policies.empty()) return std::pair(lengths.front(), shares_.front().kl);
    const Result<std::vector<TuneTrial>> tried = Try(policies);
    if (!tried) return Forward(tried);
    const auto best = std::ranges::min_element(*tried, {}, &TuneTrial::kl);
    return std::pair(std::ssize(best->policy.dense_layers), best->kl);
  }

  // Whether dense layers are worth what they cost: lists of several lengths against each other at
  // equal density, with as many more blocks elsewhere as they are shorter. First at the density
  // that no list needs to keep to the divergence, then, of the best one and its neighbours, at the
  // lower one that it should need.
  Result<> ChooseLayers() {
    const std::vector<int64_t> lengths = lists_.Lengths();
    if (lengths.size() == 1) return {};
    const double density = DensityAtKl(shares_, options_.max_kl);
    Result<std::pair<int64_t, double>> best = BestList(lengths, density);
    if (!best) return Forward(best);
    const double gain = KlAtDensity(shares_, density) / std::max(best->second, 1e-12);
    if (best->first > 0 && gain > 1) {
      std::vector<int64_t> near;
      for (size_t i = 0; i < lengths.size(); ++i) {
        const size_t from = i == 0 ? 0 : i - 1;
        const size_t to = std::min(i + 1, lengths.size() - 1);
        if (lengths[from] == best->first || lengths[i] == best->first ||
            lengths[to] == best->first) {
          near.push_back(lengths[i]);
        }
      }
      best = BestList(near, DensityAtKl(shares_, options_.max_kl * gain));
      if (!best) return Forward(best);
    }
    policy_ = WithList(best->first);
    return {};
  }

  // Tries policies on all texts; density ascends in the result.
  Result<std::vector<TuneTrial>> Try(const std::vector<SparsePolicy>& policies) {
    std::vector<TuneTrial> trials;
    for (const SparsePolicy& policy : policies) trials.push_back({policy, 0, 0});
    for (const std::vector<TokenId>& text : options_.texts) {
      DivergenceOptions wanted;
      wanted.sets = LastAndSpread(std::ssize(text), PositionsFor(model_.model->spec()));
      wanted.policies = policies;
      const Result<DivergenceResult> measured = Measure(text, wanted);
      if (!measured) return Forward(measured);
      const auto num_texts = static_cast<double>(options_.texts.size());
      const auto text_index = static_cast<size_t>(&text - options_.texts.data());
      for (size_t i = 0; i < trials.size(); ++i) {
        text_losses_[text_index] += MeanKl(measured->policies[i]);
        trials[i].kl += MeanKl(measured->policies[i]) / num_texts;
        trials[i].density += measured->policies[i].density / num_texts;
      }
    }
    result_.trials.insert(result_.trials.end(), trials.begin(), trials.end());
    std::ranges::stable_sort(trials, std::less(), &TuneTrial::density);
    return trials;
  }

  Result<> ChooseRule() {
    std::vector<SparsePolicy> policies;
    SparsePolicy by_share = policy_;
    by_share.rule = SelectionRule::kShare;
    SparsePolicy by_threshold = policy_;
    by_threshold.rule = SelectionRule::kThreshold;
    // With a list a share does that was enough without, or one of the two below it.
    const auto enough = FirstThatMeets(shares_) - shares_.begin();
    for (auto i = std::max<int64_t>(0, enough - 2); i <= enough && !policy_.dense_layers.empty();
         ++i) {
      policies.push_back(WithParameter(by_share, shares_[static_cast<size_t>(i)].policy.share));
    }
    for (const float alpha : kAlphas) policies.push_back(WithParameter(by_threshold, alpha));
    Result<std::vector<TuneTrial>> tried = Try(policies);
    if (!tried) return Forward(tried);
    const std::vector<TuneTrial> shares = OfTheList(SelectionRule::kShare);
    const std::vector<TuneTrial> thresholds = OfTheList(SelectionRule::kThreshold);
    // Where the shares keep to the divergence, or come nearest to it.
    const TuneTrial& border = *FirstThatMeets(shares);
    const bool share_is_better = border.kl <= KlAtDensity(thresholds, border.density);
    return Refine(share_is_better ? shares : thresholds);
  }

  // What was tried so far of a rule with the chosen lists; density ascends.
  std::vector<TuneTrial> OfTheList(SelectionRule rule) const {
    std::vector<TuneTrial> trials;
    for (const TuneTrial& trial : result_.trials) {
      if (trial.policy.rule != rule || trial.policy.dense_layers != policy_.dense_layers) continue;
      trials.push_back(trial);
    }
    std::ranges::stable_sort(trials, std::less(), &TuneTrial::density);
    return trials;
  }

  // The sparsest that keeps to the divergence; else the one that loses least.
  std::vector<TuneTrial>::const_iterator FirstThatMeets(
      const std::vector<TuneTrial>& trials) const {
    const auto first = std::ranges::find_if(
        trials, [&](const TuneTrial& trial) { return trial.kl <= options_.max_kl; });
    return first != trials.end() ? first : std::ranges::min_element(trials, {}, &TuneTrial::kl);
  }

  // Looks between the trial before the first that meets the divergence, and that one.
  Result<> Refine(std::vector<TuneTrial> trials) {
    const auto first = FirstThatMeets(trials);
    if (first->kl <= options_.max_kl && first != trials.begin()) {
      const double from = std::log(ParameterOf((first - 1)->policy));
      const double to = std::log(ParameterOf(first->policy));
      std::vector<SparsePolicy> between;
      for (int i = 1; i <= kRefinements; ++i) {
        between.push_back(
            WithParameter(first->policy, std::exp(from + (to - from) * i / (kRefinements + 1))));
      }
      const Result<std::vector<TuneTrial>> tried = Try(between);
      if (!tried) return Forward(tried);
    }
    // Whatever it was tried for.
    trials = result_.trials;
    std::ranges::stable_sort(trials, std::less(), &TuneTrial::density);
    result_.chosen = *FirstThatMeets(trials);
    result_.meets_kl = result_.chosen.kl <= options_.max_kl;
    return {};
  }

  Result<> TimeBoth() {
    std::vector<int64_t> lengths;
    for (int64_t n = kShortestTiming; n < std::ssize(*longest_); n *= 2) lengths.push_back(n);
    lengths.push_back(std::ssize(*longest_));
    for (const int64_t length : lengths) {
      DivergenceOptions wanted;
      wanted.sets = {{.name = "end", .positions = {length - 1}}};
      wanted.policies = {result_.chosen.policy};
      wanted.num_rounds = kTimedRounds;
      const Result<DivergenceResult> measured =
          Measure(std::span(*longest_).first(static_cast<size_t>(length)), wanted);
      if (!measured) return Forward(measured);
      std::vector<double> seconds = measured->dense_seconds;
      std::ranges::sort(seconds);
      result_.timings.push_back({.num_tokens = length,
                                 .dense_seconds = seconds[seconds.size() / 2],
                                 .ratio = measured->policies.front().time_ratio});
    }
    result_.break_even_tokens = BreakEvenOf(result_.timings);
    return {};
  }

  LoadedModel& model_;
  const TuneOptions& options_;
  const TuneProgress& progress_;
  const std::atomic<bool>& cancel_;
  SparsePolicy policy_;            // with the lists that were found so far
  const std::vector<int> global_;  // layers that see everything
  DenseLists lists_;
  std::vector<double> text_losses_;  // of each text, over all trials
  std::vector<TuneTrial> shares_;    // without dense layers; density ascends
  const std::vector<TokenId>* longest_ = nullptr;
  int64_t text_tokens_ = 0;
  int64_t done_ = 0;
  int64_t total_ = 0;
  TuneResult result_;
};

}  // namespace

std::optional<int64_t> BreakEvenOf(const std::vector<TuneTiming>& timings) {
  if (timings.empty() || !(timings.back().ratio < kFasterRatio)) return std::nullopt;
  size_t i = timings.size() - 1;
  while (i > 0 && timings[i - 1].ratio < kFasterRatio) --i;
  if (i == 0) return timings.front().num_tokens;
  const TuneTiming& slower = timings[i - 1];
  const TuneTiming& faster = timings[i];
  const double at = (slower.ratio - kFasterRatio) / (slower.ratio - faster.ratio);
  return slower.num_tokens +
         static_cast<int64_t>(at * static_cast<double>(faster.num_tokens - slower.num_tokens));
}

Result<TuneResult> Tune(LoadedModel& model, const TuneOptions& options,
                        const TuneProgress& progress, const std::atomic<bool>& cancel) {
  if (options.texts.empty()) return Fail(ErrorCode::kInvalid, "there is no text to tune with");
  for (const std::vector<TokenId>& text : options.texts) {
    const int64_t num_tokens = std::ssize(text);
    if (num_tokens >= kLeastTuneTokens && num_tokens <= model.context_tokens) continue;
    return Fail(ErrorCode::kInvalid,
                fmt::format("a text to tune with must have {} to {} tokens (the context), got {}",
                            CountText(kLeastTuneTokens), CountText(model.context_tokens),
                            CountText(num_tokens)));
  }
  return Tuner(model, options, progress, cancel).Run();
}

std::string TuneJson(const TuneResult& result, const TuneOptions& options) {
  using Json = nlohmann::ordered_json;
  Json heads = Json::array();
  for (const InductionHead& head : result.induction) {
    if (head.score <= options.induction_limit / 2) continue;
    heads.push_back({{"layer", head.layer}, {"kv_head", head.kv_head}, {"score", head.score}});
  }
  Json layers = Json::array();
  for (const LayerLoss& loss : result.layers) {
    layers.push_back({{"layer", loss.layer}, {"kl", loss.kl}});
  }
  Json trials = Json::array();
  for (const TuneTrial& trial : result.trials) {
    trials.push_back(
        {{"policy", PolicyText(trial.policy)}, {"kl", trial.kl}, {"density", trial.density}});
  }
  Json timings = Json::array();
  for (const TuneTiming& timing : result.timings) {
    timings.push_back({{"tokens", timing.num_tokens},
                       {"dense_seconds", timing.dense_seconds},
                       {"sparse_to_dense", timing.ratio}});
  }
  Json texts = Json::array();
  for (const std::vector<TokenId>& text : options.texts) texts.push_back(text.size());
  const Json json = {{"max_kl", options.max_kl}, {"meets_max_kl", result.meets_kl},
                     {"kl", result.chosen.kl},   {"density", result.chosen.density},
                     {"text_tokens", texts},     {"induction_heads", heads},
                     {"layers_alone", layers},   {"trials", trials},
                     {"timings", timings}};
  return json.dump(2);
}

}  // namespace baton
