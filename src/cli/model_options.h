// The options of every command that computes: how to open the model and run it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "cli/console.h"
#include "cli/option_set.h"
#include "cli/profile_option.h"
#include "engine/loaded_model.h"
#include "kernels/sparse_policy.h"
#include "tensor/kv_record.h"

namespace baton {

// --threads, --chunk, --isa, --ctx, --precision, --kv-type, --prefill, --sparse, --tune-file,
// --no-packed, --profile, --trace.
class ComputeOptions {
 public:
  void Declare(OptionSet& options);
  // All but --prefill, --sparse and --tune-file: for commands that read a prompt in several ways.
  // `instead`: what says there how prompts are read, for who gives --prefill.
  void DeclareWithoutPrefill(OptionSet& options, const std::string& instead);

  // What the options say to each other. Errors: invalid (--sparse without --prefill sparse,
  // --tune-file where nothing reads it).
  Result<> Check() const;
  // The same where requests may ask for other prefill than the options.
  Result<> CheckForRequests() const;

  // How to open the model at `path`; threads default to what this process may use. The clock is
  // that of the profile, and outlives this object's use. Errors: as ProfileOption::Recorder.
  Result<LoadOptions> ToLoadOptions(const std::string& path, Clock& clock);

  // Passes on how the command ended, after reporting the profile if one was asked for; a profile
  // that cannot be reported is an error if nothing else was.
  Result<> Finish(Result<> done, Console& console);

 private:
  void DeclareMachine(OptionSet& options);
  void DeclarePrefill(OptionSet& options);
  TunedPrefill Tuned() const;

  std::optional<int64_t> threads_;
  std::optional<int64_t> chunk_;
  std::optional<int64_t> context_;
  std::optional<std::string> precision_name_;
  std::optional<std::string> kv_type_name_;
  std::optional<std::string> prefill_name_;
  std::optional<SparsePolicy> sparse_;
  std::optional<std::string> tune_file_;
  std::optional<Isa> isa_;
  bool no_packed_ = false;
  ProfileOption profile_;
};

// --kv-type alone, and what it stands for.
void DeclareKvType(OptionSet& options, std::optional<std::string>* name);
KvType KvTypeOf(const std::optional<std::string>& name);

// --tune-file alone, of commands that read one.
void DeclareTuneFile(OptionSet& options, std::optional<std::string>* tune_file);

// --no-packed alone.
void DeclareNoPacked(OptionSet& options, bool* no_packed);

// --max-gap-steps, of commands that run an engine for many requests.
void DeclareMaxGapSteps(OptionSet& options, std::optional<double>* max_gap_steps);

}  // namespace baton
