// What steps take on this machine, from one run of a server to the next: a file in the cache
// folder.
#pragma once

#include <functional>
#include <string>

#include "base/hash.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/loaded_model.h"

namespace baton {

class SavedTimes {
 public:
  using Log = std::function<void(const std::string& message)>;

  // `cache_folder` empty: nothing is read or kept.
  SavedTimes(const std::string& cache_folder, const LoadedModel& model);

  // Gives the engine the fit of the last run, or has it measure, and keeps what it measured. The
  // log is told which, and of a file that cannot be used or written. Errors: as Engine::Calibrate.
  Result<> Prepare(Engine& engine, const Log& log) const;

  // Keeps what the engine has learnt meanwhile. Requires: the engine does not run.
  void Keep(const Engine& engine, const Log& log) const;

 private:
  Hash128 key_;
  std::string path_;  // empty: none
};

}  // namespace baton
