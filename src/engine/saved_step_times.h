// The fit of what steps take, kept from one run to the next: one small file for each machine and
// model, so that a server need not measure before it serves.
//
// The file, 336 bytes in the machine's order: 8 of magic, 16 of the key, the 37 numbers of
// StepTimeModel::State in their order, 16 of content hash over all before. It is only a guess to
// start from: whatever is not whole, or of another key, is measured anew.
#pragma once

#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/result.h"
#include "engine/loaded_model.h"
#include "schedule/step_time_model.h"

namespace baton {

// Of all that steps take their time from: the model's file and precision, the machine, how it is
// used, and the program.
struct StepTimesOwner {
  std::string_view cpu_name;
  std::string_view version;  // of Baton
};
Hash128 StepTimesKey(const LoadedModel& model, const StepTimesOwner& owner);

// The file of a key in a folder.
std::string StepTimesPath(const std::string& folder, const Hash128& key);

// Errors: not-found (there is none), corrupt (not whole, or of another key: with the path),
// internal (it cannot be read). Memory: reads no more than such a file has.
Result<StepTimeModel> ReadStepTimes(const std::string& path, const Hash128& key);

// Makes the folder if there is none. Keeps the kMaxStepTimesFiles youngest files of this kind in
// it. Errors: as ReplacingFile; internal (the folder cannot be made).
inline constexpr int kMaxStepTimesFiles = 256;
Result<> WriteStepTimes(const std::string& path, const Hash128& key, const StepTimeModel& model);

}  // namespace baton
