// Short names of policies, for tables and pictures.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/sparse_policy.h"

namespace baton {

// The words of a policy that are not those of the default policy ("default" if all are), or of the
// published one, with "published" in front: whichever is shorter. ParsePolicy on top of the default
// policy reads the label back, but for "default".
std::string PolicyLabel(const SparsePolicy& policy);

// A policy's yardsticks: the published policy with and without correction; and, with as many blocks
// as the policy itself keeps, correction the other way, the other estimate, none but what is always
// kept, random blocks, and the best blocks by true weight.
// Errors: invalid (a policy that does not choose a share: no other keeps as many blocks).
Result<std::vector<SparsePolicy>> BaselinesOf(const SparsePolicy& policy);

}  // namespace baton
