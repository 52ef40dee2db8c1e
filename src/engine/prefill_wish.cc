#include "engine/prefill_wish.h"

#include <fmt/format.h>

#include "kernels/sparse_policy_text.h"

namespace baton {

Result<PrefillMode> ParsePrefillMode(std::string_view text) {
  if (text == "dense") return PrefillMode::kDense;
  if (text == "sparse") return PrefillMode::kSparse;
  if (text == "auto") return PrefillMode::kAuto;
  return Fail(ErrorCode::kInvalid, "a prompt is read 'dense', 'sparse' or 'auto'");
}

Result<SparsePolicy> ParseSparseWords(std::string_view text) {
  if (text.find_first_not_of(" \t\n\r") == std::string_view::npos) {
    return Fail(ErrorCode::kInvalid,
                "no words of a sparse policy; name what it keeps ('rule=share:0.15', 'published'), "
                "or leave it out");
  }
  return ParsePolicy(text, DefaultSparsePolicy());
}

}  // namespace baton
