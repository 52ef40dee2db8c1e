// What steps take on this machine, from one run of a server to the next: a file in the cache
// folder.
#pragma once

#include <string>

#include "base/hash.h"
#include "base/result.h"
#include "cli/output.h"
#include "engine/engine.h"
#include "engine/loaded_model.h"

namespace baton {

class SavedTimes {
 public:
  // `cache_folder` empty: nothing is read or kept.
  SavedTimes(const std::string& cache_folder, const LoadedModel& model);

  // Gives the engine the fit of the last run, or has it measure, and keeps what it measured. A file
  // that cannot be used or written is a line in the log. Errors: as Engine::Calibrate.
  Result<> Prepare(Engine& engine, Output& log) const;

  // Keeps what the engine has learnt meanwhile. Requires: the engine does not run.
  void Keep(const Engine& engine, Output& log) const;

 private:
  Hash128 key_;
  std::string path_;  // empty: none
};

}  // namespace baton
