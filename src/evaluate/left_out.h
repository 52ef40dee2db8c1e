// Whether a policy can leave anything out of a prompt: short ones lie in sink, window and tail.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/sparse_policy.h"
#include "model/model_spec.h"

namespace baton {

// The shortest prompt of which a policy can leave out a block, whatever its tokens are worth;
// nothing: of none that a context has room for. Requires: the model can have the policy.
// Units: tokens.
std::optional<int64_t> FirstSparseLength(const SparsePolicy& policy, const ModelSpec& spec);

// A policy that left nothing out of prompts of these lengths, ascending.
struct NothingLeftOut {
  SparsePolicy policy;
  std::vector<int64_t> lengths;
};

// One sentence for all of them, with the length from which on each leaves something out; empty if
// there are none.
std::string NothingLeftOutText(const std::vector<NothingLeftOut>& all, const ModelSpec& spec);

}  // namespace baton
