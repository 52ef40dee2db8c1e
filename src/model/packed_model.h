// A model's matrices in a packed file (format/packed_file.h): how they are named there, and how
// they get there.
#pragma once

#include <string>

#include "base/result.h"
#include "format/gguf.h"
#include "format/packed_file.h"
#include "model/model.h"
#include "model/weight_plan.h"
#include "threads/pool.h"

namespace baton {

// What a packed file must agree with to serve this model file.
PackedFile::Expected PackedFileOf(const GgufFile& file);

// The key of the matrix that a use reads: its tensor, rows and type.
Hash128 PackedKeyOf(const GgufFile& file, const WeightUse& use);

struct PackModelArgs {
  const GgufFile& file;
  const std::string& path;  // of the packed file
  ThreadPool& pool;
  const PackProgress& progress;
};

// Repacks all matrices of a model, one after the other, and writes them to a packed file, which
// replaces an older one when it is whole.
// Errors: as Model::Load; internal (writing). Memory: the largest matrix.
Result<> PackModel(const PackModelArgs& args);

// Whether an open packed file holds exactly what PackModel would write now: repacks all matrices
// and compares every byte; `args.path` is not used. Nothing of what FingerprintOf leaves out is
// taken on trust. Errors: as Model::Load; corrupt (the packed file is damaged, lacks a matrix or
// has another; with what to do). Memory: the largest matrix.
Result<> CheckPackedModel(const PackModelArgs& args, const PackedFile& packed);

}  // namespace baton
