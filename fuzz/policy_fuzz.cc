// Arbitrary bytes as the text of a sparse policy: no crash, no undefined behaviour, and what is
// accepted reads back from what it is written as, which is its name.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "kernels/sparse_policy_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const baton::Result<baton::SparsePolicy> policy =
      baton::ParsePolicy(text, baton::DefaultSparsePolicy());
  if (!policy) {
    if (policy.error().message.empty()) std::abort();
    return 0;
  }
  if (!baton::ValidatePolicy(*policy)) std::abort();
  // What a rule does not use is not written, and comes from the same base.
  const auto again = baton::ParsePolicy(baton::PolicyText(*policy), baton::DefaultSparsePolicy());
  if (!again || baton::PolicyText(*again) != baton::PolicyText(*policy)) std::abort();
  return 0;
}
