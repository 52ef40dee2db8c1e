#include "cli/saved_times.h"

#include <nlohmann/json.hpp>

#include "bench/machine.h"
#include "engine/saved_step_times.h"

namespace baton {
namespace {

// One line, as the server's other ones.
void Note(const std::string& cause, Output& log) {
  const nlohmann::ordered_json line = {{"event", "step_times"}, {"cause", cause}};
  // A log that nobody reads any more stops nothing.
  (void)log.Write(line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
                  "\n");
}

}  // namespace

SavedTimes::SavedTimes(const std::string& cache_folder, const LoadedModel& model)
    : key_(StepTimesKey(
          model, {.cpu_name = ReadMachine(SystemFolders()).cpu_name, .version = BATON_VERSION})),
      path_(cache_folder.empty() ? "" : StepTimesPath(cache_folder + "/step-times", key_)) {}

Result<> SavedTimes::Prepare(Engine& engine, Output& log) const {
  if (path_.empty()) return engine.Calibrate();
  const Result<StepTimeModel> saved = ReadStepTimes(path_, key_);
  if (saved) {
    engine.SetTimeModel(*saved);
    return {};
  }
  if (saved.error().code != ErrorCode::kNotFound) Note(saved.error().message, log);
  if (Result<> measured = engine.Calibrate(); !measured) return measured;
  Keep(engine, log);
  return {};
}

void SavedTimes::Keep(const Engine& engine, Output& log) const {
  if (path_.empty()) return;
  if (Result<> kept = WriteStepTimes(path_, key_, engine.time_model()); !kept) {
    Note(kept.error().message, log);
  }
}

}  // namespace baton
