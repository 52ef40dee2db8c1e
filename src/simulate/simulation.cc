#include "simulate/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <queue>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/rng.h"
#include "kv/block_pool.h"

namespace baton {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// No step of a simulation is shorter, so that its clock always moves.
constexpr double kLeastStepSeconds = 1e-6;
constexpr int kStepsBetweenLooks = 4096;

// What stands at a place: the same for all requests that share it.
uint64_t NumberAt(uint64_t text, int64_t position) {
  uint64_t x = text * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(position);
  x = (x ^ (x >> 31)) * 0xD6E8FEB86659FD93u;
  return x ^ (x >> 32);
}

// Prefixes and streams are different texts, whatever their numbers.
TokenId TokenOf(const Arrival& arrival, int64_t position, int64_t vocab_size) {
  const bool is_prefix = position < arrival.prefix_tokens;
  const uint64_t text = is_prefix ? 2 * arrival.prefix + 1 : 2 * arrival.stream;
  return static_cast<TokenId>(NumberAt(text, position) % static_cast<uint64_t>(vocab_size));
}

// Something that happens at a moment; ties in the order of their numbers.
struct Event {
  double seconds = 0;
  int64_t request = 0;
  bool is_cancel = false;
  friend bool operator>(const Event& a, const Event& b) {
    return std::tie(a.seconds, a.request, a.is_cancel) >
           std::tie(b.seconds, b.request, b.is_cancel);
  }
};

class Run {
 public:
  Run(const Workload& workload, const SimulationOptions& options, BlockPool& pool)
      : workload_(workload),
        options_(options),
        pool_(pool),
        scheduler_(
            {.pool = pool, .kv_key = {}, .limits = options.limits, .time_model = options.known}),
        random_({.seed = options.seed, .stream = 0x51D}),
        followers_(workload.size(), -1),
        next_sibling_(workload.size(), -1) {
    result_.num_blocks = pool.num_blocks();
    double last = 0;
    for (int64_t i = std::ssize(workload) - 1; i >= 0; --i) {
      const Arrival& arrival = workload[static_cast<size_t>(i)];
      if (arrival.follows < 0) {
        events_.push({.seconds = arrival.seconds, .request = i});
        last = std::max(last, arrival.seconds);
      } else {
        // A chain of those that follow the same one.
        int64_t& first = followers_[static_cast<size_t>(arrival.follows)];
        next_sibling_[static_cast<size_t>(i)] = std::exchange(first, i);
      }
    }
    // How long it takes nobody knows yet: the windows grow with it.
    const int count = std::max(options.num_windows, 1);
    window_seconds_ = std::max(last, kLeastStepSeconds) / count;
    result_.windows.resize(2 * static_cast<size_t>(count));
  }

  Result<SimulationResult> ToTheEnd() {
    for (int64_t step = 0;; ++step) {
      if (step % kStepsBetweenLooks == 0 && options_.stop && options_.stop(now_)) {
        return Fail(ErrorCode::kCancelled, "the simulation was stopped");
      }
      while (!events_.empty() && events_.top().seconds <= now_) {
        const Event event = events_.top();
        events_.pop();
        event.is_cancel ? Cancel(event) : Arrive(event);
      }
      if (scheduler_.is_idle()) {
        if (events_.empty()) break;
        now_ = events_.top().seconds;
        continue;
      }
      Step();
    }
    if (Result<> books = scheduler_.CheckIntegrity(); !books) return Forward(books);
    CHECK_EQ(pool_.num_owned(), 0);
    result_.seconds = now_;
    EndWindows();
    result_.counts = scheduler_.counts();
    result_.fitted = scheduler_.time_model().coefficients();
    result_.usual_residual = scheduler_.time_model().usual_residual();
    if (result_.busy_seconds > 0) {
      result_.mean_owned_blocks /= result_.busy_seconds;
      result_.mean_running /= result_.busy_seconds;
    }
    return std::move(result_);
  }

 private:
  struct Live {
    SimulatedRequest seen;
    double last_token = -1;
  };

  // The window of this moment. Two become one until they reach so far.
  SimulationWindow& Window() {
    std::vector<SimulationWindow>& windows = result_.windows;
    while (now_ / window_seconds_ >= static_cast<double>(windows.size())) {
      const size_t half = windows.size() / 2;
      for (size_t i = 0; i < half; ++i) {
        SimulationWindow both = std::move(windows[2 * i]);
        const SimulationWindow& second = windows[2 * i + 1];
        both.ttft.Merge(second.ttft);
        both.gap.Merge(second.gap);
        both.longest_queue = std::max(both.longest_queue, second.longest_queue);
        windows[i] = std::move(both);
      }
      for (size_t i = half; i < windows.size(); ++i) windows[i] = SimulationWindow();
      window_seconds_ *= 2;
    }
    return windows[static_cast<size_t>(now_ / window_seconds_)];
  }

  // What lies behind the end is left out.
  void EndWindows() {
    (void)Window();
    result_.windows.resize(static_cast<size_t>(now_ / window_seconds_) + 1);
    for (size_t i = 0; i < result_.windows.size(); ++i) {
      result_.windows[i].begin = static_cast<double>(i) * window_seconds_;
    }
  }

  void Arrive(const Event& event) {
    const Arrival& arrival = workload_[static_cast<size_t>(event.request)];
    ++result_.arrived;
    if (arrival.prompt_tokens >= options_.limits.max_context) {
      ++result_.refused_context;
      return Follow(event.request);
    }
    const int64_t max_known =
        std::min(arrival.prompt_tokens + arrival.output_tokens, options_.limits.max_context);
    if (live_tokens_ + max_known > options_.max_live_tokens) {
      ++result_.refused_queue;
      return Follow(event.request);
    }
    SequenceSpec spec;
    spec.id = static_cast<uint64_t>(event.request);
    spec.prompt.resize(static_cast<size_t>(arrival.prompt_tokens));
    for (int64_t i = 0; i < arrival.prompt_tokens; ++i) {
      spec.prompt[static_cast<size_t>(i)] = TokenOf(arrival, i, options_.vocab_size);
    }
    spec.max_known = max_known;
    spec.priority = arrival.priority;
    spec.arrival = event.seconds;
    if (const Result<> taken = scheduler_.Submit(std::move(spec)); !taken) {
      const bool is_full = taken.error().code == ErrorCode::kExhausted;
      ++(is_full ? result_.refused_queue : result_.refused_context);
      return Follow(event.request);
    }
    live_tokens_ += max_known;
    Live& live = live_[spec.id];
    live.seen.index = event.request;
    live.seen.arrival = event.seconds;
    if (arrival.cancel_after < kNever) {
      events_.push({.seconds = event.seconds + arrival.cancel_after,
                    .request = event.request,
                    .is_cancel = true});
    }
    result_.longest_queue = std::max(result_.longest_queue, scheduler_.num_waiting());
    SimulationWindow& window = Window();
    window.longest_queue = std::max(window.longest_queue, scheduler_.num_waiting());
  }

  void Cancel(const Event& event) {
    const auto found = live_.find(static_cast<uint64_t>(event.request));
    if (found == live_.end()) return;
    found->second.seen.is_cancelled = true;
    ++result_.cancelled;
    End(found->second);
  }

  void End(Live& live) {
    const auto id = static_cast<uint64_t>(live.seen.index);
    const Sequence* sequence = scheduler_.Find(id);
    live.seen.end = now_;
    live.seen.hit_tokens = sequence->hit_tokens;
    live.seen.preemptions = sequence->preemptions;
    live_tokens_ -= sequence->spec.max_known;
    scheduler_.End(id);
    if (!live.seen.is_cancelled) {
      ++result_.completed;
      result_.total.Add(now_ - live.seen.arrival);
    }
    if (options_.on_end) options_.on_end(live.seen);
    Follow(live.seen.index);
    live_.erase(id);
  }

  void Follow(int64_t request) {
    for (int64_t next = followers_[static_cast<size_t>(request)]; next >= 0;
         next = next_sibling_[static_cast<size_t>(next)]) {
      events_.push(
          {.seconds = now_ + workload_[static_cast<size_t>(next)].seconds, .request = next});
    }
  }

  void Step() {
    const StepPlan& plan = scheduler_.Plan();
    CHECK(!plan.sequences.empty());
    StepFeatures all;
    StepFeatures streams;
    planned_.clear();
    for (size_t i = 0; i < plan.sequences.size(); ++i) {
      const SequenceStep& step = plan.sequences[i];
      if (step.phase == Phase::kDecode) {
        streams.AddDecode(step.first_position);
        all.AddDecode(step.first_position);
      } else {
        all.AddPrefill(step.num_rows(), step.first_position);
      }
      Live& live = live_.at(scheduler_.planned()[i]->spec.id);
      if (live.seen.first_planned < 0) {
        live.seen.first_planned = now_;
        result_.queue.Add(now_ - live.seen.arrival);
      }
      planned_.push_back(live.seen.index);
    }
    double seconds = StepSeconds(options_.times, all);
    if (streams.decode_rows > 0 && all.prefill_tokens > 0) {
      const double unloaded = std::max(StepSeconds(options_.times, streams), kLeastStepSeconds);
      result_.longest_gap_steps = std::max(result_.longest_gap_steps, seconds / unloaded);
    }
    if (options_.execute) {
      seconds = options_.execute(plan);
    } else if (options_.noise > 0) {
      seconds *= std::clamp(1.0 + options_.noise * random_.NextNormal(), 0.2, 5.0);
    }
    seconds = std::max(seconds, kLeastStepSeconds);
    now_ += seconds;
    result_.busy_seconds += seconds;
    result_.mean_owned_blocks += seconds * pool_.num_owned();
    result_.most_owned_blocks = std::max<int64_t>(result_.most_owned_blocks, pool_.num_owned());
    result_.mean_running += seconds * static_cast<double>(scheduler_.running().size());
    scheduler_.Commit(seconds);
    for (const int64_t index : planned_) Emit(live_.at(static_cast<uint64_t>(index)));
  }

  // The next token of a sequence all of whose tokens are computed.
  void Emit(Live& live) {
    const Sequence& sequence = *scheduler_.Find(static_cast<uint64_t>(live.seen.index));
    if (sequence.ledger.num_pending() > 0) return;
    if (live.last_token < 0) {
      live.seen.first_token = now_;
      result_.ttft.Add(now_ - live.seen.arrival);
      Window().ttft.Add(now_ - live.seen.arrival);
    } else {
      const double gap = now_ - live.last_token;
      live.seen.longest_gap = std::max(live.seen.longest_gap, gap);
      result_.gap.Add(gap);
      Window().gap.Add(gap);
    }
    live.last_token = now_;
    ++live.seen.output_tokens;
    ++result_.output_tokens;
    const int64_t known = sequence.ledger.num_known();
    if (known + 1 >= sequence.spec.max_known) return End(live);
    const Arrival& arrival = workload_[static_cast<size_t>(live.seen.index)];
    scheduler_.Push(sequence.spec.id, TokenOf(arrival, known, options_.vocab_size));
  }

  const Workload& workload_;
  const SimulationOptions& options_;
  BlockPool& pool_;
  Scheduler scheduler_;
  RandomStream random_;
  std::vector<int64_t> followers_;
  std::vector<int64_t> next_sibling_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::unordered_map<uint64_t, Live> live_;
  int64_t live_tokens_ = 0;  // with those to come
  std::vector<int64_t> planned_;
  double now_ = 0;
  double window_seconds_ = 1;
  SimulationResult result_;
};

Result<> CheckTimes(const StepTimeCoefficients& times) {
  for (const double time : {times.per_step, times.per_prefill_token, times.per_prefill_context,
                            times.per_decode_row, times.per_decode_context}) {
    if (time >= 0 && time <= StepTimeModel::kMaxSeconds) continue;
    return Fail(ErrorCode::kInvalid, fmt::format("a step's times must be from 0 to {:g} seconds, "
                                                 "got {}",
                                                 StepTimeModel::kMaxSeconds, time));
  }
  return {};
}

}  // namespace

double StepSeconds(const StepTimeCoefficients& times, const StepFeatures& features) {
  return times.per_step + times.per_prefill_token * features.prefill_tokens +
         times.per_prefill_context * features.prefill_context +
         times.per_decode_row * features.decode_rows +
         times.per_decode_context * features.decode_context;
}

StepTimeModel MeasuredModel(const StepTimeCoefficients& times) {
  StepTimeModel model;
  const auto observe = [&](const StepFeatures& features) {
    model.Observe(features, std::max(StepSeconds(times, features), kLeastStepSeconds));
  };
  for (const int64_t computed : {0, 2048}) {
    for (const int64_t tokens : {32, 256}) {
      StepFeatures features;
      features.AddPrefill(tokens, computed);
      observe(features);
    }
    for (const int rows : {1, 8}) {
      StepFeatures features;
      for (int row = 0; row < rows; ++row) features.AddDecode(64 + computed);
      observe(features);
    }
  }
  return model;
}

Result<SimulationResult> SimulateIn(BlockPool& pool, const Workload& workload,
                                    const SimulationOptions& options) {
  if (Result<> valid = Validate(options.limits); !valid) return Forward(valid);
  if (Result<> valid = CheckTimes(options.times); !valid) return Forward(valid);
  CHECK_EQ(pool.num_free(), pool.num_blocks());
  return Run(workload, options, pool).ToTheEnd();
}

Result<SimulationResult> Simulate(const Workload& workload, const SimulationOptions& options) {
  const int64_t num_blocks = NumBlocksFor(std::max<int64_t>(options.kv_tokens, 1));
  if (num_blocks > BlockPool::kMaxBlocks) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("a KV cache of {} tokens is beyond the limit of {}", options.kv_tokens,
                            int64_t{BlockPool::kMaxBlocks} * kBlockTokens));
  }
  const Result<BlockLayout> layout =
      BlockLayout::Make({.num_layers = 1, .num_kv_heads = 1, .head_dim = 16});
  if (!layout) return Forward(layout);
  Result<BlockPool> pool = BlockPool::Make(*layout, static_cast<int32_t>(num_blocks));
  if (!pool) return Forward(pool);
  return SimulateIn(*pool, workload, options);
}

}  // namespace baton
