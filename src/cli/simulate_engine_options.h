// Options of `baton simulate` that say what the engine is like: its scheduler's limits, and how
// long its steps take.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/console.h"
#include "cli/option_set.h"
#include "schedule/step_time_model.h"
#include "simulate/simulation.h"

namespace baton {

class SimulateEngineOptions {
 public:
  void Declare(OptionSet& options);
  // Errors: options that exclude each other, or a cache that holds no sequence.
  Result<> Check() const;
  // All of a simulation but its seed. Errors: those of a file of step times.
  Result<SimulationOptions> Make(Console& console) const;
  int64_t max_running() const { return max_running_.value_or(16); }

 private:
  void DeclareScheduler(OptionSet& options);
  void DeclareTimes(OptionSet& options);
  Result<> TakeStepTimes(const std::string& given);
  Result<StepTimeCoefficients> Times(Console& console) const;
  int64_t Context() const { return context_.value_or(8192); }
  int64_t KvTokens() const;

  std::optional<int64_t> context_;
  std::optional<int64_t> max_running_;
  std::optional<int64_t> kv_tokens_;
  std::optional<int64_t> chunk_;
  std::optional<double> max_gap_steps_;
  std::optional<int64_t> max_prefill_wait_;
  std::optional<int64_t> long_prompt_;
  std::optional<int64_t> max_long_prefills_;
  std::optional<int64_t> max_passes_;
  std::optional<int64_t> queue_;
  bool no_prefix_cache_ = false;
  std::optional<StepTimeCoefficients> step_times_;
  std::optional<std::string> time_model_path_;
  std::optional<double> noise_;
};

}  // namespace baton
