// How a prompt is to be read, in the words of who asks.
#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"
#include "kernels/sparse_policy.h"

namespace baton {

enum class PrefillMode {
  kDefault,  // as the model was opened
  kDense,
  kSparse,
  kAuto,  // sparse by the model's tuned policy where that is faster, else dense
};

// Plain data.
struct PrefillWish {
  PrefillMode mode = PrefillMode::kDefault;
  // Of kSparse. Nothing: the policy that the model was opened with, else its tuned one, else
  // DefaultSparsePolicy().
  std::optional<SparsePolicy> policy = std::nullopt;
};

// "dense", "sparse" or "auto". Errors: invalid, naming these.
Result<PrefillMode> ParsePrefillMode(std::string_view text);

// Words "name=value" on top of DefaultSparsePolicy(). Errors: as ParsePolicy, and invalid where
// there is no word.
Result<SparsePolicy> ParseSparseWords(std::string_view text);

}  // namespace baton
