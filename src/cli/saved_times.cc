#include "cli/saved_times.h"

#include <fmt/format.h>

#include "base/number_text.h"
#include "bench/machine.h"
#include "engine/saved_step_times.h"

namespace baton {

SavedTimes::SavedTimes(const std::string& cache_folder, const LoadedModel& model)
    : key_(StepTimesKey(
          model, {.cpu_name = ReadMachine(SystemFolders()).cpu_name, .version = BATON_VERSION})),
      path_(cache_folder.empty() ? "" : StepTimesPath(cache_folder + "/step-times", key_)) {}

Result<> SavedTimes::Prepare(Engine& engine, const Log& log) const {
  if (!path_.empty()) {
    const Result<StepTimeModel> saved = ReadStepTimes(path_, key_);
    if (saved) {
      engine.SetTimeModel(*saved);
      log(fmt::format("{}: read, a fit of {}", path_, CountOf(saved->num_observed(), "step")));
      return {};
    }
    if (saved.error().code != ErrorCode::kNotFound) log(saved.error().message);
  }
  if (Result<> measured = engine.Calibrate(); !measured) return measured;
  log("measured");
  Keep(engine, log);
  return {};
}

void SavedTimes::Keep(const Engine& engine, const Log& log) const {
  if (path_.empty()) return;
  if (Result<> kept = WriteStepTimes(path_, key_, engine.time_model()); !kept) {
    log(kept.error().message);
  }
}

}  // namespace baton
