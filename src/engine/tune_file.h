// What `baton tune` found for a model, in a small JSON file beside it.
//
// The file has: "baton_tune" (the version of its format), "model" (the fingerprint of the model
// file), "policy" (the words of PolicyText), "break_even_tokens" (a number or null), and
// "measured", the numbers that both were chosen by, which nothing reads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/hash.h"
#include "base/result.h"
#include "format/gguf.h"
#include "kernels/sparse_policy.h"

namespace baton {

inline constexpr int64_t kTuneFileVersion = 1;
inline constexpr size_t kMaxTuneFileBytes = size_t{256} << 10;

// The best policy for a model that is known.
struct Tuning {
  std::string path;  // of the file
  SparsePolicy policy;
  // Prompts of no more tokens are read faster densely. Nothing: all that were measured are.
  std::optional<int64_t> break_even_tokens;

  // The policy, with prompts up to the break-even left dense.
  SparsePolicy AutoPolicy() const;
};

// The tune file that belongs to a model file: its path (of the first part) and ".tune.json".
std::string TunePathOf(const GgufFile& file);

// What a tune file must agree with.
struct TuneFileModel {
  std::string usual_path;  // TunePathOf; of another path the way out names the option --tune-file
  Hash128 fingerprint;     // FingerprintOf
  PolicyModel model;
};

// Errors, all with the path and the way out: not-found (no file), invalid (another model's; newer
// than this program), corrupt (no such file, a field that is missing or wrong), internal.
Result<Tuning> ReadTuneFile(const std::string& path, const TuneFileModel& model);

// Whether a tune file can be put there. Errors: as ReplacingFile::Create.
Result<> CheckTunePath(const std::string& path);

// Writes one, instead of an old one. `measured`: a JSON object. Requires: it is one.
// Errors: as ReplacingFile.
struct WriteTuneFileArgs {
  const Tuning& tuning;  // its path, too
  const Hash128& fingerprint;
  const std::string& measured;
};
Result<> WriteTuneFile(const WriteTuneFileArgs& args);

}  // namespace baton
