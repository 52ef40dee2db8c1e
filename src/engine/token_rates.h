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
  // Tokens of each kind by the time of the steps that had such tokens: of those that ended in the
  // last 4.5 to 5 seconds, and of the one at work.
  struct PerSecond {
    double seconds = 0;  // of the kind with more of them; 0 where there was no such step
    double prompt = 0;
    double generated = 0;
  };

  // A step begins that has `planned` to make. Requires: now_ns is not negative and does not run
  // backwards; no step is at work.
  void BeginStep(int64_t now_ns, const Tokens& planned);
  // It has ended and has made `tokens`, none if it was given up. Of a kind that was not planned
  // they are not counted: the first token of an answer falls out of its prompt. Requires: as
  // BeginStep.
  void EndStep(int64_t now_ns, const Tokens& tokens);
  // The rates at `now_ns`; `unfinished`: what the step at work has made so far, if there is one.
  // Requires: as BeginStep.
  PerSecond At(int64_t now_ns, const Tokens& unfinished) const;

 private:
  struct Slot {
    int64_t number = -1;  // of its time, counted from the clock's zero
    int64_t busy_ns = 0;  // of the steps that ended in it
    uint64_t tokens = 0;
  };
  struct Rate {
    double seconds = 0;
    double per_second = 0;
  };
  class Kind {
   public:
    void Begin(int64_t now_ns) { since_ns_ = now_ns; }
    void End(int64_t now_ns, uint64_t tokens);
    Rate At(int64_t now_ns, uint64_t unfinished) const;

   private:
    std::array<Slot, kNumSlots> slots_;
    int64_t since_ns_ = -1;  // when the step at work began; -1 for none
  };
  Kind prompt_;
  Kind generated_;
};

}  // namespace baton
