#include "engine/token_rates.h"

namespace baton {

void TokenRates::Note(int64_t now_ns, const Tokens& tokens) {
  const int64_t number = now_ns / kSlotNs;
  Slot& slot = slots_[static_cast<size_t>(number % kNumSlots)];
  if (slot.number != number) slot = {.number = number};
  slot.tokens.prompt += tokens.prompt;
  slot.tokens.generated += tokens.generated;
}

TokenRates::PerSecond TokenRates::At(int64_t now_ns) const {
  const int64_t first = now_ns / kSlotNs - kNumSlots + 1;
  PerSecond rates{.seconds = static_cast<double>(now_ns - first * kSlotNs) * 1e-9};
  for (const Slot& slot : slots_) {
    if (slot.number < 0 || slot.number < first) continue;
    rates.prompt += static_cast<double>(slot.tokens.prompt);
    rates.generated += static_cast<double>(slot.tokens.generated);
  }
  rates.prompt /= rates.seconds;
  rates.generated /= rates.seconds;
  return rates;
}

}  // namespace baton
