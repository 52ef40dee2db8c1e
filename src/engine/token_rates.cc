#include "engine/token_rates.h"

#include <algorithm>

namespace baton {

void TokenRates::Kind::End(int64_t now_ns, uint64_t tokens) {
  if (since_ns_ < 0) return;
  if (tokens > 0) {
    const int64_t number = now_ns / kSlotNs;
    Slot& slot = slots_[static_cast<size_t>(number % kNumSlots)];
    if (slot.number != number) slot = {.number = number};
    slot.busy_ns += now_ns - since_ns_;
    slot.tokens += tokens;
  }
  since_ns_ = -1;
}

TokenRates::Rate TokenRates::Kind::At(int64_t now_ns, uint64_t unfinished) const {
  const int64_t first = now_ns / kSlotNs - kNumSlots + 1;
  int64_t busy_ns = since_ns_ < 0 ? 0 : now_ns - since_ns_;
  uint64_t tokens = since_ns_ < 0 ? 0 : unfinished;
  for (const Slot& slot : slots_) {
    if (slot.number < 0 || slot.number < first) continue;
    busy_ns += slot.busy_ns;
    tokens += slot.tokens;
  }
  if (busy_ns == 0) return {};
  const double seconds = static_cast<double>(busy_ns) * 1e-9;
  return {.seconds = seconds, .per_second = static_cast<double>(tokens) / seconds};
}

void TokenRates::BeginStep(int64_t now_ns, const Tokens& planned) {
  if (planned.prompt > 0) prompt_.Begin(now_ns);
  if (planned.generated > 0) generated_.Begin(now_ns);
}

void TokenRates::EndStep(int64_t now_ns, const Tokens& tokens) {
  prompt_.End(now_ns, tokens.prompt);
  generated_.End(now_ns, tokens.generated);
}

TokenRates::PerSecond TokenRates::At(int64_t now_ns, const Tokens& unfinished) const {
  const Rate prompt = prompt_.At(now_ns, unfinished.prompt);
  const Rate generated = generated_.At(now_ns, unfinished.generated);
  return {.seconds = std::max(prompt.seconds, generated.seconds),
          .prompt = prompt.per_second,
          .generated = generated.per_second};
}

}  // namespace baton
