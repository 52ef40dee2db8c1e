// The policy that a request's prompt is read by, and what follows from it: the key of what it
// leaves in the cache, and which of it serves other prompts (schedule/prefix_reuse.h).
#pragma once

#include <cstdint>
#include <optional>

#include "base/hash.h"
#include "base/result.h"
#include "engine/loaded_model.h"
#include "engine/prefill_wish.h"
#include "schedule/prefix_reuse.h"

namespace baton {

// What decides whether a model can read prompts by a policy.
struct PolicyNeeds {
  PolicyModel model;
  int64_t chunk_tokens = 0;
};
// Errors: invalid (as ValidatePolicyFor; a chunk shorter than a tile).
Result<> CheckPolicy(const SparsePolicy& policy, const PolicyNeeds& needs);

// How prompts are read by a model that is opened with these options, whatever their length;
// nothing: densely. Errors: those of the tune file, if it is needed, or is wanted and damaged.
Result<std::optional<SparsePolicy>> PolicyOpenedWith(const LoadOptions& options,
                                                     const Result<Tuning>& tuning);

// The policy for a prompt of so many tokens; nothing: it is dense. A least length has done its
// work, so the result has none: the same blocks are kept whatever it was.
// Errors: invalid (a policy that the model, or its chunk, cannot have); what the tune file's error
// is, where the wish needs one.
Result<std::optional<SparsePolicy>> PolicyOfPrompt(const PrefillWish& wish, int64_t num_tokens,
                                                   const LoadedModel& model);

// Whether anything but plain dense reading was asked for, by the request or at the start.
bool StatesPrefill(const PrefillWish& wish, const LoadedModel& model);

// Names what a prompt leaves in the cache: prompts share what was computed by the same policy.
Hash128 SaltOfPrompt(const Hash128& cache_salt, const std::optional<SparsePolicy>& policy);

PrefixReuse ReuseOfPrompt(const std::optional<SparsePolicy>& policy, int64_t num_tokens,
                          const ModelSpec& spec);

}  // namespace baton
