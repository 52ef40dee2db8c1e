// The ledger of a request: which tokens are known and how many of them have been computed.
//
// Prefill, chunked prefill, a prefix hit, preemption and a hand-over from another machine are all
// the same thing: `computed` catches up with `known`.
//  1. new: known = prompt, computed = 0.
//  2. prefill: each step computes some known tokens (or finds them in a cache); logits of the last
//     known token give the next one.
//  3. decode: computed = known − 1 before each step; the step computes the one and the sampled
//     token joins the known ones.
//  4. preempted: its blocks are gone, computed = 0; known stays, so 2 follows.
//  5. finished.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/ids.h"

namespace baton {

// Tokens of one request. Plain data; the owner keeps 0 <= computed <= known.size().
struct Request {
  uint64_t id = 0;
  std::vector<TokenId> known;  // prompt, then generated
  int64_t num_prompt = 0;      // how many of the known tokens are the prompt
  int64_t computed = 0;        // leading known tokens whose K and V are in the cache

  int64_t num_known() const { return static_cast<int64_t>(known.size()); }
  int64_t num_generated() const { return num_known() - num_prompt; }
  // Known tokens that a step has still to compute.
  int64_t num_pending() const { return num_known() - computed; }

  // Notes that a step computed the next num_tokens known tokens. Requires: so many are pending.
  void AdvanceComputed(int64_t num_tokens) {
    CHECK(num_tokens >= 0 && num_tokens <= num_pending());
    computed += num_tokens;
  }

  friend bool operator==(const Request&, const Request&) = default;
};

}  // namespace baton
