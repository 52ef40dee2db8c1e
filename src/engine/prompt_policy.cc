#include "engine/prompt_policy.h"

#include <fmt/format.h>

#include <algorithm>

#include "forward/step_forward.h"
#include "kernels/sparse_policy_text.h"
#include "kv/block_layout.h"

namespace baton {
namespace {

// The tuned policy; else, if there is no tuned one, the default.
Result<std::optional<SparsePolicy>> TunedOrDefault(const Result<Tuning>& tuning) {
  if (tuning) return std::optional(tuning->policy);
  // A file that is there and cannot be used is not passed over.
  if (tuning.error().code != ErrorCode::kNotFound) return Forward(tuning);
  return std::optional(DefaultSparsePolicy());
}

// What the wish says before the prompt's length counts; nothing: dense.
Result<std::optional<SparsePolicy>> PolicyWished(const PrefillWish& wish,
                                                 const LoadedModel& model) {
  const std::optional<SparsePolicy>& opened_with = model.options.prefill_policy;
  switch (wish.mode) {
    case PrefillMode::kDefault:
      return opened_with;
    case PrefillMode::kDense:
      return std::optional<SparsePolicy>();
    case PrefillMode::kAuto:
      if (!model.tuning) return Forward(model.tuning);
      return std::optional(model.tuning->AutoPolicy());
    case PrefillMode::kSparse:
      break;
  }
  if (wish.policy) return wish.policy;
  const bool is_auto = model.options.tuned_prefill == TunedPrefill::kAuto;
  if (opened_with && !is_auto) return opened_with;
  return TunedOrDefault(model.tuning);
}

}  // namespace

Result<> CheckPolicy(const SparsePolicy& policy, const PolicyNeeds& needs) {
  if (Result<> valid = ValidatePolicyFor(policy, needs.model); !valid) return valid;
  const int tile = TilePositions(policy, needs.model.num_heads / needs.model.num_kv_heads);
  const int64_t least = std::max<int64_t>(tile, kBlockTokens);
  if (needs.chunk_tokens >= least) return {};
  return Fail(ErrorCode::kInvalid,
              fmt::format("a sparse prefill reads whole tiles and whole blocks of the cache: the "
                          "chunk (--chunk) must be at least {} tokens, got {}",
                          least, needs.chunk_tokens));
}

Result<std::optional<SparsePolicy>> PolicyOpenedWith(const LoadOptions& options,
                                                     const Result<Tuning>& tuning) {
  switch (options.tuned_prefill) {
    case TunedPrefill::kNone:
      return options.prefill_policy;
    case TunedPrefill::kSparse:
      return TunedOrDefault(tuning);
    case TunedPrefill::kAuto:
      break;
  }
  if (!tuning) return Forward(tuning);
  return std::optional(tuning->AutoPolicy());
}

Result<std::optional<SparsePolicy>> PolicyOfPrompt(const PrefillWish& wish, int64_t num_tokens,
                                                   const LoadedModel& model) {
  Result<std::optional<SparsePolicy>> wished = PolicyWished(wish, model);
  if (!wished || !wished->has_value()) return wished;
  SparsePolicy& policy = **wished;
  const PolicyNeeds needs{.model = PolicyModelOf(model.model->spec()),
                          .chunk_tokens = model.options.chunk_tokens};
  if (Result<> fits = CheckPolicy(policy, needs); !fits) return Forward(fits);
  if (num_tokens <= policy.min_prompt_tokens) return std::optional<SparsePolicy>();
  policy.min_prompt_tokens = 0;
  return wished;
}

bool StatesPrefill(const PrefillWish& wish, const LoadedModel& model) {
  if (wish.mode != PrefillMode::kDefault) return true;
  return model.options.prefill_policy.has_value();
}

Hash128 SaltOfPrompt(const Hash128& cache_salt, const std::optional<SparsePolicy>& policy) {
  if (!policy) return cache_salt;
  return Hasher()
      .Add("prefill")
      .Add(cache_salt.low)
      .Add(cache_salt.high)
      .Add(PolicyText(*policy))
      .Finish();
}

PrefixReuse ReuseOfPrompt(const std::optional<SparsePolicy>& policy, int64_t num_tokens,
                          const ModelSpec& spec) {
  if (!policy) return {};
  return ReuseOfSparse(
      {.num_tokens = num_tokens,
       .tile_positions = TilePositions(*policy, spec.num_heads / spec.num_kv_heads),
       .last_tiles = policy->last_tiles});
}

}  // namespace baton
