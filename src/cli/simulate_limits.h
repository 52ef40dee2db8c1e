// What the numbers of `baton simulate` may be at most.
#pragma once

#include <cstdint>

namespace baton {

inline constexpr int64_t kMaxSimulatedCount = 1 << 20;
inline constexpr int64_t kMaxSimulatedContext = 1 << 24;
inline constexpr double kMaxSimulatedSeconds = 1e9;

}  // namespace baton
