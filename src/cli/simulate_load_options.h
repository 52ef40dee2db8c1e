// Options of `baton simulate` that say which requests arrive: those of a file, or generated ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/console.h"
#include "cli/option_set.h"
#include "simulate/length_distribution.h"
#include "simulate/workload.h"

namespace baton {

class SimulateLoadOptions {
 public:
  void Declare(OptionSet& options);
  // Errors: options that exclude each other, or ask for more requests than can be simulated.
  Result<> Check() const;
  // Errors: those of a file.
  Result<Workload> Load(Console& console) const;
  uint64_t seed() const { return static_cast<uint64_t>(seed_.value_or(0)); }

 private:
  // The first option of generated arrivals that is given; empty if none is.
  std::string_view GeneratorOption() const;
  WorkloadOptions Generator() const;

  std::optional<std::string> workload_path_;
  std::optional<double> rate_;
  std::optional<double> duration_;
  std::optional<int64_t> burst_;
  std::optional<LengthDistribution> prompt_tokens_;
  std::optional<LengthDistribution> output_tokens_;
  std::optional<int64_t> shared_prefix_;
  std::optional<double> prefix_share_;
  std::optional<int64_t> prefixes_;
  std::optional<int64_t> turns_;
  std::optional<double> think_;
  std::optional<double> priority_share_;
  std::optional<int64_t> seed_;
};

}  // namespace baton
