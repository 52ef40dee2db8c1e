// All of a model file but its weights, and everything that keeps the file from being run.
//
// LoadModel takes the parts and refuses by the first of what is lacking; `baton inspect` prints all
// of it. So the two cannot disagree.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/loaded_model.h"
#include "engine/memory_needs.h"
#include "engine/tune_file.h"
#include "format/gguf.h"
#include "format/packed_file.h"
#include "model/model_spec.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace baton {

struct ModelParts {
  // What could be read of the file.
  std::optional<ModelSpec> spec;
  int64_t context_tokens = 0;
  std::optional<MemoryNeeds> needs;
  std::unique_ptr<ChatTemplate> chat_template;  // null also if there is none
  std::unique_ptr<Tokenizer> tokenizer;
  std::optional<PackedFile> packed;
  Hash128 fingerprint;
  // As LoadedModel::tuning; and how prompts are read, after it was asked.
  Result<Tuning> tuning = Fail(ErrorCode::kNotFound, "the model is not tuned");
  std::optional<SparsePolicy> prefill_policy;
  // What keeps it from being run, as errors that begin with the file's name where it is to blame.
  // If there is none, only the values of packed matrices, memory that is gone meanwhile and the
  // disk can keep the model from being loaded.
  std::vector<Error> lacks;
  // As LoadedModel::warnings.
  std::vector<std::string> warnings;
};

// The first of what is lacking, and how much more there is. Requires: there is any.
tl::unexpected<Error> Refusal(const std::vector<Error>& lacks);

// Reads the parts with these options. Memory: vocabulary and template.
ModelParts ReadModelParts(const GgufFile& file, const LoadOptions& options);

}  // namespace baton
