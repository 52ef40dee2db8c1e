// What the numbers of a sparse policy may be.
#pragma once

#include <cstdint>

namespace baton {

// Far beyond any prompt, near enough to zero that sums of such numbers do not overflow.
inline constexpr int64_t kMaxPolicyTokens = int64_t{1} << 40;
// Of a list, and the greatest layer or KV head in one.
inline constexpr int kMaxPolicyEntries = 65536;

}  // namespace baton
