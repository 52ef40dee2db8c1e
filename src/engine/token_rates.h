// How many tokens a second the engine has made of late.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace baton {

// Counts tokens in slots of time that are used again and again. Threads: one at a time.
class TokenRates {
 public:
  static constexpr int64_t kSlotNs = 500'000'000;
  static constexpr int64_t kNumSlots = 10;

  struct Tokens {
    uint64_t prompt = 0;     // computed in prefill
    uint64_t generated = 0;  // chosen in decode
  };
  // Tokens per second of the clock, waiting included.
  struct PerSecond {
    double seconds = 0;  // that they are taken over: the last 4.5 to 5
    double prompt = 0;
    double generated = 0;
  };

  // Notes what a step has made. Requires: now_ns is not negative and does not run backwards.
  void Note(int64_t now_ns, const Tokens& tokens);
  // The rates of the last seconds before `now_ns`. Requires: as Note.
  PerSecond At(int64_t now_ns) const;

 private:
  struct Slot {
    int64_t number = -1;  // of its time, counted from the clock's zero
    Tokens tokens = {};
  };
  std::array<Slot, kNumSlots> slots_;
};

}  // namespace baton
