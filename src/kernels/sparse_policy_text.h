// A policy as people write it.
#pragma once

#include <string_view>

#include "base/result.h"
#include "kernels/sparse_policy.h"

namespace baton {

// What is kept where nothing else is known of the model: the best of our study of small models that
// needs no calibration (docs/sparse.md). Not the published policy, which is SparsePolicy().
SparsePolicy DefaultSparsePolicy();

// Reads words "name=value" with blanks between them (tabs and ends of lines count as such), as
// PolicyText writes them, on top of a policy: what is not named stays. Each name once. The word
// "published" in front stands for the published policy, SparsePolicy(). A threshold's alpha lies in
// (0, 1]. The result is valid (ValidatePolicy). Errors: invalid, naming the word and what is
// accepted.
Result<SparsePolicy> ParsePolicy(std::string_view text, const SparsePolicy& base);

}  // namespace baton
